"""The settings: YAML file < environment (`SCANMD_…`) < command line."""

from daemon.settings_folders import FolderProblem, check_folders
from daemon.settings_loading import LoadedSettings, ShownSetting, load_settings, shown_settings
from daemon.settings_models import AfterDelivery, Inbox, Settings

__all__ = [
    "AfterDelivery",
    "FolderProblem",
    "Inbox",
    "LoadedSettings",
    "Settings",
    "ShownSetting",
    "check_folders",
    "load_settings",
    "shown_settings",
]
