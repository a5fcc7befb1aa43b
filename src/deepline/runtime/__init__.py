"""Trio carries out what core decides, through ports: nurseries, scopes, controllers."""
