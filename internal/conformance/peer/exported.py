"""Models that scikit-learn, LightGBM and XGBoost train on seeded data and that their converters
export to ONNX."""

import numpy as np
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloat
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import compose, ensemble, impute, linear_model, neighbors, pipeline
from sklearn import preprocessing, svm, tree

ROWS, COLUMNS = 300, 8
OPSETS = {"": 18, "ai.onnx.ml": 3}


def data(classes=0, missing=False):
    """Features and targets: class numbers, or real numbers when classes is 0."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    y = x @ rng.standard_normal(COLUMNS) + 0.3 * rng.standard_normal(ROWS) + x[:, 0] * x[:, 1]
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
    return x, y


def sklearn_model(estimator, classes=0, labels=None, missing=False, **options):
    def make():
        x, y = data(classes, missing)
        fitted = estimator().fit(x, np.array(labels)[y] if labels else y)
        settings = {id(fitted): options} if options else None
        return to_onnx(fitted, x[:1], target_opset=OPSETS, options=settings), [x[:100]]

    return make


def mixed_pipeline():
    """Numbers are imputed and scaled, words are encoded, and a logistic regression follows."""
    import pandas

    x, y = data(3, missing=True)
    rng = np.random.default_rng(8)
    frame = pandas.DataFrame({f"n{i}": x[:, i] for i in range(3)})
    frame["w"] = np.array(["red", "green", "blue"], dtype=object)[rng.integers(0, 3, ROWS)]
    numbers = pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler())
    columns = compose.ColumnTransformer([("n", numbers, ["n0", "n1", "n2"]),
                                         ("w", preprocessing.OneHotEncoder(handle_unknown="ignore"),
                                          ["w"])])
    fitted = pipeline.make_pipeline(columns, linear_model.LogisticRegression()).fit(frame, y)
    types = [(f"n{i}", FloatTensorType([None, 1]))
             for i in range(3)] + [("w", StringTensorType([None, 1]))]
    m = to_onnx(fitted,
                initial_types=types,
                target_opset=OPSETS,
                options={id(fitted): {"zipmap": False}})
    inputs = [frame[[f"n{i}"]].to_numpy(np.float32)[:50] for i in range(3)]
    return m, [*inputs, frame[["w"]].to_numpy(object)[:50]]


def lightgbm_model(name, classes=0, **options):
    def make():
        import lightgbm

        x, y = data(classes, missing=True)
        fitted = getattr(lightgbm, name)(n_estimators=20, verbose=-1, **options).fit(x, y)
        return convert_lightgbm(fitted,
                                initial_types=[("x", ToolsFloat([None, COLUMNS]))],
                                target_opset=15,
                                zipmap=False), [x[:100]]

    return make


def xgboost_model(name, classes=0, **options):
    def make():
        import xgboost

        x, y = data(classes, missing=True)
        fitted = getattr(xgboost, name)(n_estimators=20, max_depth=4, **options).fit(x, y)
        return convert_xgboost(fitted,
                               initial_types=[("x", ToolsFloat([None, COLUMNS]))],
                               target_opset=15), [x[:100]]

    return make


WORDS = ["no", "perhaps", "yes"]
MODELS = {
    "tree-regressor": sklearn_model(lambda: tree.DecisionTreeRegressor(max_depth=5)),
    "tree-classifier": sklearn_model(lambda: tree.DecisionTreeClassifier(max_depth=5),
                                     3,
                                     zipmap=False),
    "forest-regressor": sklearn_model(
        lambda: ensemble.RandomForestRegressor(8, max_depth=7, random_state=0)),
    "forest-binary": sklearn_model(
        lambda: ensemble.RandomForestClassifier(8, max_depth=7, random_state=0), 2, zipmap=False),
    "forest-words": sklearn_model(
        lambda: ensemble.RandomForestClassifier(8, max_depth=7, random_state=0), 3, WORDS),
    "extra-trees": sklearn_model(
        lambda: ensemble.ExtraTreesClassifier(8, max_depth=7, random_state=0), 3, zipmap=False),
    "boosting-regressor": sklearn_model(
        lambda: ensemble.GradientBoostingRegressor(n_estimators=30, random_state=0)),
    "boosting-binary": sklearn_model(
        lambda: ensemble.GradientBoostingClassifier(n_estimators=30, random_state=0),
        2,
        zipmap=False),
    "boosting-words": sklearn_model(
        lambda: ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0), 3, WORDS),
    "isolation-forest": sklearn_model(
        lambda: ensemble.IsolationForest(n_estimators=4, random_state=0)),
    "linear": sklearn_model(linear_model.LinearRegression),
    "logistic-binary": sklearn_model(linear_model.LogisticRegression, 2, zipmap=False),
    "logistic-words": sklearn_model(linear_model.LogisticRegression, 3, WORDS),
    "sgd": sklearn_model(lambda: linear_model.SGDClassifier(random_state=0), 3, zipmap=False),
    "svc-binary": sklearn_model(svm.SVC, 2, zipmap=False),
    "svc": sklearn_model(lambda: svm.SVC(kernel="poly"), 3, zipmap=False),
    "nu-svc": sklearn_model(svm.NuSVC, 3, zipmap=False),
    "linear-svc": sklearn_model(svm.LinearSVC, 3),
    "svr": sklearn_model(svm.SVR),
    "one-class": sklearn_model(svm.OneClassSVM),
    "neighbours": sklearn_model(lambda: neighbors.KNeighborsClassifier(3), 3, zipmap=False),
    "scaled": sklearn_model(lambda: pipeline.make_pipeline(preprocessing.StandardScaler(
    ), preprocessing.Normalizer(), linear_model.Ridge())),
    "binarized": sklearn_model(
        lambda: pipeline.make_pipeline(preprocessing.Binarizer(), linear_model.Ridge())),
    "mixed": mixed_pipeline,
    "lightgbm-regressor": lightgbm_model("LGBMRegressor"),
    "lightgbm-binary": lightgbm_model("LGBMClassifier", 2),
    "lightgbm-classes": lightgbm_model("LGBMClassifier", 3),
    "xgboost-regressor": xgboost_model("XGBRegressor"),
    "xgboost-binary": xgboost_model("XGBClassifier", 2),
    "xgboost-classes": xgboost_model("XGBClassifier", 3),
}
