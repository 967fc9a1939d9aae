"""The API keys that the broker answers, one file each. `ALL` is what ApiVersions and dispatch go by."""
