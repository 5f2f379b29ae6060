"""kerf quantizes the weights of models to few-bit formats and says what each cut costs.

    import kerf, numpy

    kerf.quantize("model/", "model-nvfp4/", "nvfp4:4/6")  # a model, written whole or not at all
    planes = kerf.encode(numpy.ones((8, 64), "f4"), "nvfp4:4/6")  # one array
    array = planes.decode()  # and the way back
    kerf.score("model/", "nvfp4:*")  # what each format would cost
    kerf.advise("model/", bits=5).save("recipe.json")  # the best format for every layer, and why

Arrays are numpy's, or anything with ``__dlpack__``. Failures are subclasses of KerfError. Long calls
take ``progress=callable`` and are stopped by Ctrl-C, with nothing left behind. The GIL is released
while the library works.
"""

from kerf._jobs import Event, Progress
from kerf._library import version as _version
from kerf.advising import (
    Advice,
    Choice,
    Point,
    Typical,
    TypicalRow,
    advise,
    advise_typical,
    candidates,
)
from kerf.checkpoints import Checkpoint, Tensor, open
from kerf.errors import (
    ArgumentError,
    BufferTooSmallError,
    CanceledError,
    DataError,
    DeviceError,
    ExistsError,
    FileError,
    KerfError,
    LimitError,
    NoMemoryError,
    RangeError,
    UnsupportedError,
)
from kerf.formats import Encoder, Format, Formats, formats
from kerf.machines import Fact, Hardware, Operator, Prediction, Step, predict
from kerf.measuring import (
    Finding,
    Inspection,
    Score,
    Scores,
    Verification,
    Verified,
    inspect,
    score,
    verify,
)
from kerf.planes import Planes, decode, encode
from kerf.products import Gemv, gemv
from kerf.texts import (
    CalibratedWeight,
    Calibration,
    Evaluated,
    Evaluation,
    calibrate,
    evaluate,
    tokenize,
)
from kerf.writing import (
    BrokenPromiseWarning,
    Converted,
    Decision,
    Losses,
    Quantized,
    RecipeCheck,
    Written,
    convert,
    dequantize,
    layouts,
    quantize,
)

__version__ = _version()

__all__ = [
    "Advice",
    "ArgumentError",
    "BrokenPromiseWarning",
    "BufferTooSmallError",
    "CalibratedWeight",
    "Calibration",
    "CanceledError",
    "Checkpoint",
    "Choice",
    "Converted",
    "DataError",
    "Decision",
    "DeviceError",
    "Encoder",
    "Evaluated",
    "Evaluation",
    "Event",
    "ExistsError",
    "Fact",
    "FileError",
    "Finding",
    "Format",
    "Formats",
    "Gemv",
    "Hardware",
    "Inspection",
    "KerfError",
    "LimitError",
    "Losses",
    "NoMemoryError",
    "Operator",
    "Planes",
    "Point",
    "Prediction",
    "Progress",
    "Quantized",
    "RangeError",
    "RecipeCheck",
    "Score",
    "Scores",
    "Step",
    "Tensor",
    "Typical",
    "TypicalRow",
    "UnsupportedError",
    "Verification",
    "Verified",
    "Written",
    "advise",
    "advise_typical",
    "calibrate",
    "candidates",
    "convert",
    "decode",
    "dequantize",
    "encode",
    "evaluate",
    "formats",
    "gemv",
    "inspect",
    "layouts",
    "open",
    "predict",
    "quantize",
    "score",
    "tokenize",
    "verify",
]
