"""The parameters that job flows share, as form fields."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from storage.models import Namespace

Approval = Literal["refuse", "suspend"]
PlanId = Annotated[str, Field(pattern=r"^plan_[0-9a-f]{20}$")]


class NamespaceSelector(BaseModel):
    """One exact namespace."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str = Field(default="default", min_length=1, max_length=256, description="Tenant")
    principal: str = Field(default="default", min_length=1, max_length=256, description="Principal")
    scope: str = Field(default="default", min_length=1, max_length=256, description="Scope")

    def namespace(self) -> Namespace:
        """Give the namespace that is meant, checked like any other input."""
        return Namespace.model_validate(self.model_dump())
