"""The rules of the jobs: policy, now and facts give decisions."""
