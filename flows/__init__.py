"""One Prefect flow for each job."""
