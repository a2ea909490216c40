import { readdirSync, readlinkSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { tempDir } from '../../testing/harness.ts'
import { OwnedBlocks } from './block-cache.ts'
import { type PackedBlock, Packer } from './packed-block.ts'
import { PackedFiles } from './packed-files.ts'
import type { SampleBlock } from './sample-block.ts'
import { Scratch, ScratchPool } from './scratch.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const START = 1_700_000_000_000

/** Of a few series, worth packing. */
function blockOf(random: Random, value: () => number): SampleBlock {
  const runs = 1 + random.below(4)
  const starts = new Int32Array(runs + 1)
  for (let run = 0; run < runs; run++) starts[run + 1] = starts[run] + 200 + random.below(100)
  const times = new Float64Array(starts[runs])
  for (let run = 0; run < runs; run++)
    for (let i = starts[run], time = START + random.below(50); i < starts[run + 1]; i++) times[i] = time += 1 + random.below(200)
  const values = Float64Array.from(times, value)
  const series = Int32Array.from({ length: runs }, (_, run) => run * 3 + random.below(3))
  return { series, starts, times, values, minTime: Math.min(...times), maxTime: Math.max(...times), ...(random.chance(0.5) ? { sparse: true as const } : {}) }
}

/** All that can be asked of it. */
function contents(block: PackedBlock): unknown {
  const { series, starts, divisor, sparse, minTime, maxTime, falls } = block
  const samples = [...series].flatMap((number, run) => {
    const out: number[][] = []
    for (let position = starts[run]; position < starts[run + 1]; position++)
      out.push([number, block.time(run, position), block.value(run, position), block.nextFall(run, position - 1, starts[run + 1] - 1)])
    return out
  })
  return { divisor, sparse, minTime, maxTime, falls, samples }
}

t.test(`packed blocks come back out of files as they were, SVC_SEED=${seed}`, (t) => {
  const random = new Random(seed)
  const files = new PackedFiles({ directory: join(tempDir(), 'none yet'), budget: 1 << 24, name: 'a' })
  const packer = new Packer()
  const pool = new ScratchPool(1 << 20)
  const kept: { owned: OwnedBlocks<PackedBlock>; key: number; contents: unknown }[] = []
  const owners = Array.from({ length: 3 }, (_, segment) => new OwnedBlocks<PackedBlock>(segment))
  for (let key = 0; key < 60; key++) {
    let total = 0
    const value = random.pick([
      () => (total += random.below(9)),
      () => random.below(1000) / 10,
      () => (random.chance(0.01) ? random.below(2 ** 31) : -5),
      () => Math.fround(random.below(1e9) / 7) * 1e-9,
    ])
    const packed = packer.pack(blockOf(random, value))
    if (packed === undefined) continue
    const owned = random.pick(owners)
    t.ok(files.put(owned, key, packed, 1))
    kept.push({ owned, key, contents: contents(packed) })
  }
  t.ok(kept.length > 20)
  for (let i = 0; i < 200; i++) {
    const { owned, key, contents: before } = random.pick(kept)
    const scratch = random.chance(0.8) ? new Scratch(pool) : undefined
    t.strictSame(contents(files.get(owned, key, 1, scratch) as PackedBlock), before)
    scratch?.release()
  }
  t.equal(files.get(owners[0], 1000, 1, undefined), undefined)
  files.close()
  t.end()
})

function counter(rows = 1000): PackedBlock {
  let total = 0
  const times = Float64Array.from({ length: rows }, (_, i) => START + i)
  return new Packer().pack({
    series: Int32Array.of(1),
    starts: Int32Array.of(0, rows),
    times,
    values: times.map(() => total++),
    minTime: START,
    maxTime: START + rows - 1,
  }) as PackedBlock
}

t.test('the files of segments that are gone are gone, and those used longest ago when there is no room', (t) => {
  const directory = tempDir()
  const block = counter()
  const size = block.image().reduce((sum, { byteLength }) => sum + byteLength, 0)
  const files = new PackedFiles({ directory, budget: size * 3, name: 'a' })
  const segments = [1, 2, 3, 4].map((id) => new OwnedBlocks<PackedBlock>(id))
  for (const segment of segments.slice(0, 3)) t.ok(files.put(segment, 0, block, 1))
  t.equal(files.put(segments[3], 0, block, 1), false, 'nothing goes that the same question uses')
  t.ok(files.get(segments[0], 0, 2, undefined))
  t.ok(files.put(segments[3], 0, block, 2))
  t.strictSame(
    segments.map((segment) => files.has(segment, 0)),
    [true, false, true, true],
  )
  files.forget(new Set([3, 4]))
  t.equal(files.bytes, size)
  t.strictSame(readdirSync(directory), [], 'they have no names')
  files.close()
  t.equal(files.bytes, 0)
  t.end()
})

/** The way to the file of the directory that this process has open. */
function openIn(directory: string): string {
  for (const fd of readdirSync('/proc/self/fd')) {
    const path = join('/proc/self/fd', fd)
    try {
      if (readlinkSync(path).startsWith(directory)) return path
    } catch {
      // Of the listing itself.
    }
  }
  throw new Error(`no file of ${directory} is open`)
}

t.test('no more files are open than there may be', (t) => {
  const directory = tempDir()
  const block = counter()
  const files = new PackedFiles({ directory, budget: 1 << 30, name: 'a' })
  const segments = Array.from({ length: 300 }, (_, id) => new OwnedBlocks<PackedBlock>(id))
  const put = (from: number, question: number): number => segments.slice(from).filter((segment) => files.put(segment, question, block, question)).length
  t.equal(put(0, 1), 256)
  t.equal(put(200, 2), 100, 'those of the question before go')
  t.equal(segments.filter((segment) => files.has(segment, 1)).length, 212)
  t.equal(segments.filter((segment) => files.has(segment, 2)).length, 100)
  t.ok(files.put(segments[299], 3, block, 3))
  t.equal(segments.filter((segment) => files.has(segment, 1)).length, 212, 'another block of one that is open costs none')
  files.close()
  t.equal(files.bytes, 0)
  t.end()
})

t.test('what goes for a block is what others use, the longest unused first, and nothing where that is not enough', (t) => {
  const block = counter()
  const size = block.image().reduce((sum, { byteLength }) => sum + byteLength, 0)
  const files = new PackedFiles({ directory: tempDir(), budget: size * 3, name: 'a' })
  const [a, b, c, d] = [1, 2, 3, 4].map((id) => new OwnedBlocks<PackedBlock>(id))
  const kept = (): number[] => [a, b, c, d].filter((segment) => files.has(segment, 0)).map(({ owner }) => owner)
  for (const segment of [a, b, c]) t.ok(files.put(segment, 0, block, 1))
  t.ok(files.get(a, 0, 2, undefined))
  t.equal(files.admits(size * 2, 2), true)
  t.equal(files.admits(size * 2 + 1, 2), false, 'beside its own')
  t.ok(files.get(b, 0, 3, undefined))
  t.ok(files.get(a, 0, 3, undefined))
  t.ok(files.put(d, 0, block, 4))
  t.same(kept(), [1, 2, 4], 'the one used longest ago')
  t.equal(files.put(d, 1, counter(3000), 4), false)
  t.same(kept(), [1, 2, 4], 'none goes for nothing')
  t.ok(files.put(b, 1, block, 5))
  t.same([...kept(), files.has(b, 1)], [2, 4, true], 'a block is put behind the others of its segment, which stay')
  files.forget(new Set([4]))
  t.ok(files.put(b, 2, block, 5))
  t.equal(files.put(b, 3, block, 6), false, 'nor does its own file')
  t.same([kept(), files.bytes], [[2], size * 3])
  files.close()
  t.end()
})

t.test('a write that fails costs all files, and nothing is written until there may be room again', { skip: process.platform !== 'linux' }, (t) => {
  const directory = tempDir()
  const files = new PackedFiles({ directory, budget: 1 << 20, name: 'a' })
  const [a, b] = [1, 2].map((id) => new OwnedBlocks<PackedBlock>(id))
  t.ok(files.put(a, 0, counter(), 1))
  symlinkSync('/dev/full', join(directory, 'samples-a-1'))
  t.equal(files.put(b, 0, counter(), 1), false)
  t.same([files.bytes, files.has(a, 0), files.has(b, 0)], [0, false, false])
  t.equal(files.admits(1, 1), false)
  files.rest()
  t.ok(files.put(b, 0, counter(), 1))
  files.close()
  t.end()
})

t.test('without room on the disk, or with a file that ends early, blocks are as if they were not kept', (t) => {
  const directory = tempDir()
  const segment = new OwnedBlocks<PackedBlock>(1)
  const files = new PackedFiles({ directory, budget: 1 << 20, name: 'a' })
  t.ok(files.put(segment, 0, counter(), 1))
  if (process.platform === 'linux') {
    truncateSync(openIn(directory), 100)
    t.equal(files.get(segment, 0, 1, undefined), undefined)
    t.ok(files.put(segment, 0, counter(), 1), 'made again')
  }
  t.ok(files.get(segment, 0, 1, undefined))
  files.close()
  const path = join(directory, 'a file')
  writeFileSync(path, '')
  const nowhere = new PackedFiles({ directory: path, budget: 1 << 20, name: 'a' })
  t.equal(nowhere.admits(100, 1), false)
  t.equal(nowhere.put(segment, 0, counter(), 1), false)
  rmSync(path)
  t.equal(nowhere.admits(100, 1), false, 'and not tried again')
  nowhere.rest()
  t.ok(nowhere.put(segment, 0, counter(), 1), 'until later')
  nowhere.close()
  t.end()
})

t.test('half of what is free is left to what is written', (t) => {
  const block = counter()
  const size = block.image().reduce((sum, { byteLength }) => sum + byteLength, 0)
  let volume = size * 8
  const files: PackedFiles = new PackedFiles({ directory: tempDir(), budget: 1 << 30, name: 'a', free: () => volume - files.bytes })
  const segments = Array.from({ length: 5 }, (_, id) => new OwnedBlocks<PackedBlock>(id))
  const kept = (): number[] => segments.filter((segment) => files.has(segment, 0)).map(({ owner }) => owner)
  for (const [question, segment] of segments.entries()) t.ok(files.put(segment, 0, block, question))
  t.same(kept(), [1, 2, 3, 4])
  volume = size * 4
  files.rest()
  t.same(kept(), [3, 4], 'and those used longest ago go when it becomes less')
  volume = 0
  files.rest()
  t.same(kept(), [])
  t.equal(files.admits(size, 9), false)
  volume = size * 2
  t.equal(files.admits(size, 9), false)
  files.rest()
  t.equal(files.admits(size, 9), true)
  t.end()
})

t.test('a file that no question uses goes after a while', (t) => {
  const files = new PackedFiles({ directory: tempDir(), budget: 1 << 30, name: 'a' })
  const [used, unused] = [1, 2].map((id) => new OwnedBlocks<PackedBlock>(id))
  for (const segment of [used, unused]) t.ok(files.put(segment, 0, counter(), 1))
  for (let round = 0; round < 60; round++) {
    files.rest()
    files.get(used, 0, 2, undefined)
  }
  t.same([files.has(used, 0), files.has(unused, 0)], [true, true])
  files.rest()
  t.same([files.has(used, 0), files.has(unused, 0)], [true, false])
  files.close()
  t.end()
})
