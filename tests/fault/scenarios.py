"""scenarios.py - what the campaigns run: every verb on tiny inputs, and what stands in the room before.

A scenario's `code` is its undisturbed exit code; `writes` names what it leaves, for the campaigns about
writing; `gate` marks those of the short sweep."""
import json

from room import make_sources, make_tiny


class Scenario:
    def __init__(self, name, line, before=None, code=0, writes=None, gate=False, shim='',
                 keeps=None, varies=None, codes=(), slow=False, stage=None, done=None):
        self.name, self.args, self.code = name, line.split(), code
        self.before_lines = [before] if isinstance(before, str) else before or []  # make what stands there first
        self.writes, self.gate = writes, gate
        self.keeps = keeps         # what a run that fails may leave, as it is documented
        self.shim = shim           # words that the shim is given in every run
        self.varies = varies       # what of its text differs from run to run, besides times: a pattern
        self.codes = set(codes)    # exit codes by which it may say more than others that a call failed
        self.slow = slow           # a second each: calls fail once
        self.stage = stage         # a folder in which things wait: between a run's begin and end it holds anything
        self.done = done           # what the next run may say when this one had come to its end
        self.before = {}           # {path: bytes}, once prepared

    @property
    def again(self):
        """The command for a second run, when the output may be there."""
        return self.args if '-y' in self.args or not self.writes else self.args + ['-y']

    @property
    def goes_on(self):
        return '--resume' in self.args


QUANTIZE = 'quantize in/model -f nvfp4:4/6 -j 1 '
MERGED = {'stage': 'o.kerf-parts', 'done': 'has no parts to merge'}  # a part that cannot be read is damaged: 3
PARTS = [QUANTIZE + '--shard-size 5KB -o o --part %d/2' % i for i in (1, 2)]
SCORE = 'score in/model -f nvfp4,nf4 -j 1 -o o '
TOKENS = ' in/tiny --tokens in/tokens.u16 --length 8 '
PART = 'calibrate' + TOKENS + '--alpha 2 --gram -j 1 -o o --part %d/2'
EVAL = 'eval in/tiny in/tiny-int8 --tokens in/tokens.u16 --length 8 -j 1 '
TASK = rb'"pid":[0-9]+,"name":"[a-z]*"|gpu0: [0-9]+ [a-z?]+'  # a name that cannot be seen is none
NUMBERS = rb'[-+]?[0-9][0-9.e+-]*'
SCENARIOS = [
    Scenario('file', 'quantize in/one.safetensors -f nvfp4:4/6 -j 1 -o o.safetensors', writes='o.safetensors',
             gate=True),
    Scenario('file over a file', 'quantize in/one.safetensors -f int8 -j 1 -y --json -o o.safetensors',
             before='quantize in/one.safetensors -f nvfp4 -o o.safetensors', writes='o.safetensors'),
    Scenario('compressed', 'quantize in/one.safetensors -f mxfp4 -j 1 -o o.safetensors.zst',
             writes='o.safetensors.zst', gate=True),
    Scenario('folder', 'quantize in/model -f int4-g128:search -j 3 --json -o o', writes='o'),
    Scenario('folder over a folder', QUANTIZE + '--layout compressed-tensors -y -o o',
             before='quantize in/model -f int8 -o o', writes='o', gate=True),
    Scenario('resharded', QUANTIZE + '--shard-size 5KB -o o', writes='o'),
    Scenario('resumed', QUANTIZE + '--resume -o o', writes='o', gate=True,
             shim='clock_ms=40'),  # a run of less than that has no journal
    Scenario('one part of two', QUANTIZE + '--shard-size 5KB -o o --part 2/2', writes='o.kerf-parts/2-of-2',
             stage='o.kerf-parts', gate=True, codes=[4]),  # a lost journal does not say why
    Scenario('a part that is there', QUANTIZE + '--shard-size 5KB -o o --part 2/2', before=PARTS[1],
             codes=[4]),  # that it cannot be looked at, or written anew, is no reason to lose it
    Scenario('merge', 'merge o -j 1', before=PARTS, writes='o', gate=True, codes=[3], **MERGED),
    Scenario('merge over a folder', 'merge o -j 1 -y --json', before=PARTS + ['quantize in/model -f int8 -o o'],
             writes='o', codes=[3], **MERGED),
    Scenario('lines of progress', QUANTIZE + '--progress json -o o', writes='o', gate=True),
    Scenario('gguf', 'quantize in/one.gguf -f nvfp4:4/6 -j 1 -o o.gguf', writes='o.gguf'),
    Scenario('recipe', 'quantize in/one.safetensors --recipe in/recipe.json -j 1 -o o.safetensors',
             writes='o.safetensors'),
    Scenario('dry run', 'quantize in/model -f nf4 -n'),
    Scenario('convert', 'convert in/ct --layout modelopt -j 1 -o o', writes='o', gate=True),
    Scenario('convert over a folder', 'convert in/ct --layout kerf -j 1 -y -o o', before='quantize in/model -f int8 -o o',
             writes='o'),
    Scenario('dequantize', 'dequantize in/ct -j 1 -o o', writes='o'),
    Scenario('dequantize a GGUF file', 'dequantize in/q.gguf -j 1 -o o.safetensors', writes='o.safetensors'),
    Scenario('dequantize a compressed file', 'dequantize in/q.safetensors.zst -j 1 -o o', writes='o'),
    Scenario('score', 'score in/one.safetensors -f nvfp4,nf4 -j 1 --json'),
    Scenario('score, kept', SCORE + '-y --json', before='quantize in/model -f int8 -o o', writes='o'),
    Scenario('score, one part of two', SCORE + '--part 1/2', writes='o.kerf-parts/1-of-2', stage='o.kerf-parts',
             gate=True, codes=[4]),
    Scenario('merge scores', 'merge o -j 1', before=[SCORE + '--part %d/2' % i for i in (1, 2)], writes='o',
             codes=[3], **MERGED),
    Scenario('scores that were kept', 'score o --json', before=SCORE),
    Scenario('score as text', 'score in/one.safetensors -f nvfp4,nf4 -j 1 --per-tensor'),
    Scenario('verify', 'verify in/one.safetensors in/q.safetensors -j 1 --json'),
    Scenario('verify with limits', 'verify in/one.safetensors in/q.safetensors -j 1 --limits in/limits.json', code=1),
    Scenario('write limits', 'verify in/one.safetensors in/q.safetensors -j 1 --write-limits limits.json',
             writes='limits.json'),
    Scenario('inspect', 'inspect in/ct --json'),
    Scenario('inspect as text', 'inspect in/model'),
    Scenario('inspect what is wrong', 'inspect in/wrong', code=1),
    Scenario('advise', 'advise in/model --budget 5bits -f nvfp4,int8 -j 1 -o r.json --report r.html --cache c.json',
             writes='r.json', gate=True, keeps='c.json'),
    Scenario('advise for a machine', 'advise in/model --budget 5bits -f nvfp4,int8 -j 1 --hardware h200 --json'),
    Scenario('advise from a calibration', 'advise in/tiny --calibration in/cal --budget 6bits -f nvfp4,int8 -j 1 --json'),
    Scenario('scales of inputs', 'quantize in/tiny -f nvfp4 --layout modelopt --calibration in/cal --input-scales --kv fp8-e4m3 '
             '-j 1 -o o',
             writes='o', gate=True),
    Scenario('score from a calibration', 'score in/tiny -f nvfp4 --calibration in/cal -j 1 --json'),
    Scenario('calibrate', 'calibrate' + TOKENS + '--alpha 2 -j 1 -o o', writes='o'),
    Scenario('calibrate, all it can', 'calibrate' + TOKENS + '--alpha-by loss --alpha 2 --gram --imatrix-gguf i.gguf '
             '-j 3 --json -o o', writes='o'),
    Scenario('calibrate, resumed', 'calibrate' + TOKENS + '--alpha 2 -j 1 --resume -o o', writes='o',
             shim='clock_ms=40'),
    Scenario('calibrate, one part of two', PART % 1, writes='o.kerf-parts/1-of-2', stage='o.kerf-parts', gate=True,
             codes=[4]),
    Scenario('calibrate, a part that is there', PART % 2, before=PART % 2, codes=[4]),
    Scenario('merge a calibration', 'merge o -j 1', before=[PART % 1, PART % 2], writes='o', codes=[3],
             gate=True, **MERGED),  # its second part has no files
    Scenario('calibrate with a text', 'calibrate in/tiny --text in/text.txt --length 8 --alpha-by none -j 1 -y -o o',
             before='quantize in/model -f int8 -o o', writes='o'),
    Scenario('eval', EVAL + '--json'),
    Scenario('eval as it is run', EVAL.replace('tiny-int8', 'tiny-w4a4') + '--json'),
    Scenario('eval over its limits', EVAL + '--limits in/eval.json --junit e.xml --markdown e.md', code=1, writes='e.xml'),
    Scenario('monitor', 'monitor --json -n 2 --interval 0.01', codes=[6], varies=TASK),
    Scenario('monitor as text', 'monitor -n 1', codes=[6], varies=rb'(?m)^[0-9:]{8},|' + TASK),
    Scenario('monitor as a table', 'monitor --csv -n 1', codes=[6], varies=rb'(?m)^[0-9.]+,[0-9.]+,'),
    # Without `writes`: what it measured is another each time, which no state of a disk can be compared with.
    Scenario('monitor a command', 'monitor --idle 0 -y -o e.json -- /bin/true', codes=[6], varies=NUMBERS),
    Scenario('bench', 'bench gemv -f int8 --shape 64x64 -n 1 -j 1 --json', varies=NUMBERS, slow=True),
    Scenario('selftest', 'selftest --vectors in/vectors/int2-g16.txt --json'),
    Scenario('hardware', 'hardware in/hardware.json --json'),
    Scenario('hardware with times', 'hardware h200 --measured in/gemv.json --json'),
    Scenario('predict', 'predict --hardware h200 --model in/model --json'),
    Scenario('predict a shape', 'predict --hardware in/hardware.json --shape 4096x4096 -f nvfp4,int8'),
    Scenario('compare', 'compare in/times.json --hardware h200 --json'),
    Scenario('formats', 'formats --json'),
    Scenario('version', 'version --json'),
    Scenario('help', 'help quantize'),
]


def prepare(room, only=None, rows=64):
    """Makes all sources, weights of so many rows, and what stands before each scenario. Returns the scenarios."""
    make_sources(rows)
    room.must('quantize', 'in/model', '-f', 'nvfp4:4/6', '--layout', 'compressed-tensors', '-o', 'in/ct')
    for name in 'q.safetensors', 'q.safetensors.zst', 'q.gguf':
        source = 'in/one.gguf' if name.endswith('.gguf') else 'in/one.safetensors'
        room.must('quantize', source, '-f', 'nvfp4:4/6', '-o', 'in/' + name)
    room.must('advise', 'in/one.safetensors', '--budget', '5bits', '-f', 'nvfp4,int8', '-o', 'in/recipe.json')
    with open('in/limits.json', 'w') as f:
        json.dump({'schema': 'kerf.limits/1', 'default': {'t2': 1e-9}}, f)
    _, text, _ = room.run(['hardware', 'h200', '--json'])
    with open('in/hardware.json', 'wb') as f:
        f.write(text)
    room.must('quantize', 'in/model', '-f', 'nvfp4', '--layout', 'modelopt', '-o', 'in/wrong')
    with open('in/wrong/config.json', 'w') as f:
        f.write('{')
    with open('in/times.json', 'w') as f:
        json.dump({'schema': 'kerf.bench.gemv/1',
                   'results': [{'format': 'nvfp4', 'n': 4096, 'k': 4096, 'batch': 1, 'us': 4.4}]}, f)
    make_tiny()
    room.must('quantize', 'in/tiny', '-f', 'int8', '-j', '1', '-o', 'in/tiny-int8')
    room.must('calibrate', *TOKENS.split(), '--alpha', '2', '-o', 'in/cal')
    room.must('quantize', 'in/tiny', '-f', 'nvfp4', '--layout', 'modelopt', '--calibration', 'in/cal', '--input-scales',
              '--kv', 'fp8-e4m3', '-j', '1', '-o', 'in/tiny-w4a4')
    chosen = [s for s in SCENARIOS if only is None or only(s)]
    for s in chosen:
        room.put({})
        for line in s.before_lines:
            room.must(*line.split())
        s.before = room.look()
    room.put({})
    return chosen
