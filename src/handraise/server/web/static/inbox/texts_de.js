// Made by `python -m scripts.catalog`.

export default {};
