"""room.py - one command in a room of its own: a folder on a memory disk with small inputs, set back before
every run, and what is compared after it. Shared by the campaigns beside it."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import tempfile


class Room:
    """KERF, the shim and the tools stand under `build`. The working folder of this process becomes the
    room: `in` holds sources that no run may change, all else is what a run may write."""

    def __init__(self, build):
        build = os.path.abspath(build)
        self.kerf = os.path.join(build, 'kerf')
        self.shim = os.path.join(build, 'tests/fault/libfault_shim.so')
        self.planted = os.path.join(build, 'tests/fault/libfault_planted.so')
        for path in self.kerf, self.shim:
            if not os.path.exists(path):
                raise SystemExit('%s is not built' % path)
        where = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        self.path = tempfile.mkdtemp(prefix='kerf-room-', dir=where)
        self.side = tempfile.mkdtemp(prefix='kerf-side-', dir=where)  # what is not the room: output, counts
        os.chdir(self.path)
        self.env = {k: v for k, v in os.environ.items() if k in ('PATH', 'HOME', 'LD_LIBRARY_PATH')}
        self.env.update(OMP_WAIT_POLICY='passive', OMP_NUM_THREADS='2', LC_ALL='C', KERF_STAND_IN='in/play')
        stand_ins = [os.path.join(build, 'tests', f) for f in ('stand_in', 'fault/stand_in')]
        self.env['LD_LIBRARY_PATH'] = ':'.join(stand_ins + self.env.get('LD_LIBRARY_PATH', '').split(':')).strip(':')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.chdir('/')
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.side, ignore_errors=True)

    # --- files -----------------------------------------------------------------------------------

    def look(self):
        """{path: bytes} of all but the sources; None for a folder."""
        found = {}

        def walk(folder):
            with os.scandir(folder) as entries:
                for e in entries:
                    path = e.path[2:]
                    if path == 'in':
                        continue
                    if e.is_dir(follow_symlinks=False):
                        found[path] = None
                        walk(e.path)
                    elif e.is_file(follow_symlinks=False):
                        with open(path, 'rb') as f:
                            found[path] = f.read()
                    else:
                        found[path] = os.lstat(path).st_mode
        walk('.')
        return found

    def put(self, files):
        """Makes the room hold exactly these files."""
        for name in os.listdir('.'):
            if name != 'in':
                if os.path.isdir(name) and not os.path.islink(name):
                    shutil.rmtree(name)
                else:
                    os.unlink(name)
        fill('.', files)

    # --- runs ------------------------------------------------------------------------------------

    def start(self, args, shim='', preload=(), program=None):
        """Starts kerf (or another program) with the shim told so; its process id."""
        env = dict(self.env)
        libraries = list(preload)
        if shim:
            libraries.insert(0, self.shim)
            env['KERF_SHIM'] = shim
        if libraries:
            env['LD_PRELOAD'] = ':'.join(libraries)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        files = [(os.POSIX_SPAWN_OPEN, 0, '/dev/null', os.O_RDONLY, 0),
                 (os.POSIX_SPAWN_OPEN, 1, self.side + '/out', flags, 0o600),
                 (os.POSIX_SPAWN_OPEN, 2, self.side + '/err', flags | os.O_APPEND, 0o600)]
        program = program or self.kerf
        return os.posix_spawn(program, [program, *args], env, file_actions=files)

    def finish(self, pid, limit_s=60):
        """Waits for the end. (exit code, -N for signal N, or None for a run that hung; stdout; stderr)"""
        hung = []

        def stop(*_):
            hung.append(1)
            os.kill(pid, signal.SIGKILL)
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        _, status = os.waitpid(pid, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        with open(self.side + '/out', 'rb') as f:
            out = f.read()
        with open(self.side + '/err', 'rb') as f:
            err = f.read().decode('utf-8', 'replace')
        return (None if hung else os.waitstatus_to_exitcode(status)), out, err

    def run(self, args, shim='', **more):
        return self.finish(self.start(args, shim, **more))

    def count(self, args, shim='', **more):
        """How many calls of each kind a run makes: {kind: number}."""
        path = self.side + '/count'
        if os.path.exists(path):
            os.unlink(path)
        self.run(args, 'count=%s %s' % (path, shim), **more)
        with open(path) as f:
            return {k: int(n) for k, n in (line.split() for line in f)}

    def must(self, *args):
        code, _, err = self.run(args)
        if code != 0:
            raise SystemExit('%s: exit code %s: %s' % (' '.join(args), code, err))


def fill(folder, files):
    """Writes {path: bytes, None: a folder} under a folder."""
    for path in sorted(files):
        whole = os.path.join(folder, path)
        if files[path] is None:
            os.makedirs(whole, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, 'wb') as f:
                f.write(files[path])


# --- sources -------------------------------------------------------------------------------------

CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': 64, 'intermediate_size': 64,
          'num_hidden_layers': 2, 'num_attention_heads': 2, 'num_key_value_heads': 2, 'vocab_size': 64,
          'torch_dtype': 'bfloat16'}


def numbers(count, seed):
    """bfloat16 as weights have them."""
    rnd = random.Random(seed)
    some = [struct.pack('<f', rnd.gauss(0, 0.02))[2:] for _ in range(1024)]
    return b''.join(rnd.choices(some, k=count))


def safetensors(tensors):
    """A file of {name: (dtype, shape, bytes)}."""
    head, at = {'__metadata__': {'format': 'pt'}}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + b''.join(t[2] for t in tensors.values())


def gguf(tensors):
    """A GGUF file of {name: (rows, columns, bfloat16 bytes)}."""
    def text(s):
        return struct.pack('<Q', len(s)) + s.encode()
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), 1)
    head += text('general.architecture') + struct.pack('<I', 8) + text('llama')
    data = b''
    for name, (rows, columns, numbers_of) in tensors.items():
        head += text(name) + struct.pack('<IQQIQ', 2, columns, rows, 30, len(data))
        data += numbers_of + bytes(-len(numbers_of) % 32)
    return head + bytes(-len(head) % 32) + data


def matrix(layer, part, rows=64, columns=64):
    return {'model.layers.%d.mlp.%s.weight' % (layer, part):
            ('BF16', [rows, columns], numbers(rows * columns, 100 * layer + len(part)))}


def make_sources(rows=64):
    """in/one.safetensors, and in/model: two shards, an index, config.json, a tokenizer."""
    norm = {'model.norm.weight': ('BF16', [64], numbers(64, 1))}
    first = {**matrix(0, 'down_proj', rows), **norm}
    second = {**matrix(1, 'gate_proj', rows), **matrix(1, 'up_proj', rows)}
    shard = ['model-0000%d-of-00002.safetensors' % i for i in (1, 2)]
    files = {'one.safetensors': safetensors({**first, **second}),
             'model/' + shard[0]: safetensors(first), 'model/' + shard[1]: safetensors(second),
             'model/config.json': json.dumps(CONFIG).encode(),
             'model/tokenizer.json': b'{"version": "1.0"}\n'}
    of = {**{n: shard[0] for n in first}, **{n: shard[1] for n in second}}
    total = sum(len(t[2]) for t in {**first, **second}.values())
    files['model/model.safetensors.index.json'] = json.dumps(
        {'metadata': {'total_size': total}, 'weight_map': of}).encode()
    files['one.gguf'] = gguf({'blk.0.ffn_down.weight': (64, 64, numbers(64 * 64, 7)),
                              'blk.0.ffn_up.weight': (64, 64, numbers(64 * 64, 8))})
    fill('in', files)


# A reading of one GPU, as tests/monitor/nvml_stand_in.c plays it.
GPU = b'0 412500 700000 5000 1980 2619 61 20480 81559 98 87 0x24 1\n'


def make_tiny():
    """in/tiny: a model of one layer and 16 tokens that runs in a millisecond, with a tokenizer; in/tokens.u16 and
    in/text.txt for it, and what else verbs read: limits of eval, readings of a GPU, times, golden vectors."""
    width, layer = 64, 'model.layers.0.'
    shapes = {'model.embed_tokens': 16, **{layer + 'self_attn.%s_proj' % p: width for p in 'qkvo'},
              **{layer + 'mlp.%s_proj' % p: width for p in ('gate', 'up', 'down')}}
    weights = {name + '.weight': ('BF16', [rows, width], numbers(rows * width, 20 + i))
               for i, (name, rows) in enumerate(shapes.items())}
    norms = {name + '.weight': ('BF16', [width], b'\x80\x3f' * width)
             for name in (layer + 'input_layernorm', layer + 'post_attention_layernorm', 'model.norm')}
    config = {**CONFIG, 'num_hidden_layers': 1, 'head_dim': 32, 'vocab_size': 16, 'rms_norm_eps': 1e-5,
              'max_position_embeddings': 32, 'hidden_act': 'silu', 'tie_word_embeddings': True}
    words = ['<s>', '\u0120', 'a', 'b', 'ab', '\u0120a']
    tokenizer = {'added_tokens': [{'id': 0, 'content': '<s>', 'special': True}], 'normalizer': None,
                 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'use_regex': True},
                 'model': {'type': 'BPE', 'vocab': {w: i for i, w in enumerate(words)},
                           'merges': [['a', 'b'], ['\u0120', 'a']]}}
    times = [{'format': 'int8', 'n': n, 'k': 4096, 'batch': 1, 'us': 2 + n / 500} for n in (1024, 2048, 4096, 8192)]
    fill('in', {'tiny/model.safetensors': safetensors({**weights, **norms}),
                'tiny/config.json': json.dumps(config).encode(), 'tiny/tokenizer.json': json.dumps(tokenizer).encode(),
                'tokens.u16': b''.join(bytes([(7 * i + i // 3) % 16, 0]) for i in range(32)),
                'text.txt': b'ab a b ab abab a b' * 4,
                'eval.json': b'{"schema": "kerf.eval-limits/1", "kl": 0, "flips": 1}', 'play': GPU,
                'gemv.json': json.dumps({'schema': 'kerf.bench.gemv/1', 'results': times}).encode()})
    os.makedirs('in/vectors')
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../golden/int2-g16.txt'), 'in/vectors')


def cpu_s():
    """Seconds of processor that this campaign and its runs have taken."""
    own, runs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + runs.ru_utime + runs.ru_stime


class Tally:
    """Cases and failures of one test, as the results file and README have them."""

    def __init__(self, test):
        self.test, self.cases, self.failed, self.cpu_seconds, self.began = test, 0, [], 0, cpu_s()

    def add(self, what, wrong):
        self.cases += 1
        if wrong:
            self.failed.append('%s: %s' % (what, '; '.join(wrong)))

    def end(self):
        """Nothing comes after this."""
        self.cpu_seconds = cpu_s() - self.began
        return self

    def join(self, other):
        self.cases += other.cases
        self.failed += other.failed
        self.cpu_seconds += other.cpu_seconds

    def result(self):
        return {'test': self.test, 'cases': self.cases, 'failures': len(self.failed),
                'cpu_seconds': round(self.cpu_seconds, 1)}

    def report(self, most=20):
        for line in self.failed[:most]:
            print('FAIL:', line)
        print('%s: %d cases, %d failed, %.0f s of processor' % (self.test, self.cases, len(self.failed),
                                                                self.cpu_seconds))
        return not self.failed and self.cases > 0
