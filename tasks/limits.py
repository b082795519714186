"""SafetyLimits: how much a plan may remove before a person has to confirm it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt


class SafetyLimits(BaseModel):
    """Judged once per plan, on the figures stored with it, before the first write."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_fraction: Annotated[float, Field(gt=0, le=1, strict=True)] = Field(
        default=0.30, description="Largest share of the visible memories that a plan may remove"
    )
    max_rows: Annotated[StrictInt, Field(ge=0)] | None = Field(
        default=None,
        description="Most memories that a plan may remove; empty: no limit",
    )
    min_rows_before_fraction: Annotated[StrictInt, Field(ge=0)] = Field(
        default=20, description="Namespaces with fewer visible memories are not judged by share"
    )

    def allowed(self, visible: int) -> int | None:
        """Give how many rows the share allows, or None where it is not judged.

        The 1e-9 keeps an exact share exact: 0.7 * 90 is 62.99999999999999 in doubles.
        """
        if visible < self.min_rows_before_fraction:
            return None
        return int(self.max_fraction * visible + 1e-9)
