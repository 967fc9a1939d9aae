"""Where the files of tables are: folders of this machine (`local.py`) or buckets (`s3.py`), behind one
interface (`table_files.py`). `opening.py` chooses.
"""
