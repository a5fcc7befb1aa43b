"""Settings that every test shares."""

from hypothesis import settings

# A slow machine is no bug: properties state what holds, not how fast.
settings.register_profile(
    "deepline", settings.get_profile(settings.get_current_profile_name()), deadline=None
)
settings.load_profile("deepline")
