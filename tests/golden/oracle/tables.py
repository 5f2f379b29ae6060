"""The tables of bitsandbytes: NF4's code book, its thresholds, the signed dynamic map."""
from .ieee import from_bits32

NF4_VALUES = [from_bits32(int(b, 16)) for b in """
    bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f bdba7871 00000000
    3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 3f1007ab 3f3913b3 3f800000""".split()]

NF4_THRESHOLDS = [from_bits32(int(b, 16)) for b in """
    bf591cd8 bf1c5270 beeb8480 beadea76 be703cec be0d38bc bd3a7871 3d22faff
    3df64862 3e5067e0 3e9582d4 3ec753f9 3f006d04 3f248daf 3f5c89da""".split()]

_MAP_UPPER = [from_bits32(int(b, 16)) for b in """
    3513a3b7 365a1a94 370205ff 37b24206 38378034 388aefb3 38ba1f4b 3923d70b
    398ce705 39c7e282 3a016f00 3a1eecc1 3a3c6a80 3a59e83e 3a7765ff 3aa7ef9d
    3af1a9fc 3b1db22d 3b428f5c 3b676c8a 3b8624dd 3b989374 3bab020d 3bbd70a4
    3bcfdf3c 3be24dd3 3bf4bc6a 3c039581 3c0ccccd 3c160418 3c1f3b64 3c3ae148
    3c68f5c3 3c8b851f 3ca28f5c 3cb9999a 3cd0a3d7 3ce7ae13 3cfeb852 3d0ae147
    3d166667 3d21eb85 3d2d70a3 3d38f5c2 3d447ae1 3d500000 3d5b8520 3d670a3d
    3d728f5d 3d7e147b 3d84cccd 3d8a8f5d 3d9051eb 3d96147b 3d9bd70b 3da1999a
    3da75c2a 3dad1eb8 3db2e148 3db8a3d7 3dbe6667 3dc428f7 3dc9eb85 3ddb3334
    3df80000 3e0a6666 3e18cccd 3e273333 3e359999 3e440000 3e526666 3e60cccd
    3e6f3333 3e7d9999 3e860000 3e8d3333 3e946666 3e9b999a 3ea2cccc 3eaa0000
    3eb13332 3eb86666 3ebf999a 3ec6cccc 3ece0000 3ed53332 3edc6666 3ee39999
    3eeacccc 3ef20000 3ef93332 3f003333 3f03cccd 3f076666 3f0b0000 3f0e999a
    3f123333 3f15cccd 3f196667 3f1d0000 3f20999a 3f243333 3f27cccd 3f2b6667
    3f2f0000 3f32999a 3f363333 3f39cccd 3f3d6667 3f410000 3f44999a 3f483333
    3f4bcccd 3f4f6666 3f530000 3f56999a 3f5a3333 3f5dcccd 3f616666 3f650000
    3f68999a 3f6c3333 3f6fcccd 3f736666 3f770000 3f7a999a 3f7e3333 3f800000""".split()]

DYNAMIC_MAP = [-v for v in reversed(_MAP_UPPER[:127])] + [0.0] + _MAP_UPPER
