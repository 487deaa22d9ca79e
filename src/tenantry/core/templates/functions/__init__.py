"""The functions of templates: Go's own, those of sprig, and a few of Helm and Capsule.

Each module holds one subject and registers its functions with their parameter types in `registry`.
"""
