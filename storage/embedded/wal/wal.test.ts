import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SvcError } from 'svcdb/lib/errors'
import { crc32c } from 'svcdb/lib/files'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { ByteReader, ByteWriter } from '../../common/log/bytes.ts'
import {
  decodeFloats,
  decodeInt64s,
  decodeInts,
  decodeTimes,
  encodeFloats,
  encodeInt64s,
  encodeInts,
  encodeTimes,
  requireRows,
} from '../../common/log/column-codec.ts'
import { realFileSystem } from '../../common/log/file-system.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { replay } from './replay.ts'

t.test('CRC-32C gives the values of RFC 3720', async (t) => {
  const of = (bytes: Uint8Array) => crc32c(bytes, 0, bytes.length)
  t.equal(of(Buffer.from('123456789')), 0xe3069283)
  t.equal(of(new Uint8Array(32)), 0x8a9136aa)
  t.equal(of(new Uint8Array(32).fill(0xff)), 0x62a8ab43)
  t.equal(of(Uint8Array.from({ length: 32 }, (_, i) => i)), 0x46dd794e)
})

t.test('columns come back bit for bit', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const special = [0, -0, 1, -1, 0.1, 1e300, -1e300, 5e-324, 2 ** 53, -(2 ** 53), 2 ** 31, 4294967295, 1.005, 0.3, 1e15 + 0.5]
  const makers: (() => number)[] = [
    () => Math.floor(random() * 101),
    () => Math.round(random() * 1e6) / 100,
    () => Math.round((random() - 0.5) * 1e9) / 1e4,
    () => random(),
    () => Math.floor((random() - 0.5) * 2 ** 40),
    () => special[Math.floor(random() * special.length)],
    () => 1e18 + Math.floor(random() * 1000) * 256,
  ]
  for (let round = 0; round < 300; round++) {
    const n = Math.floor(random() * 40)
    const make = makers[round % makers.length]
    const floats = Float64Array.from({ length: n }, make)
    const out = new ByteWriter(16)
    encodeFloats(out, floats, n)
    const back = new Float64Array(n)
    decodeFloats(new ByteReader(out.bytes, 0, out.length), back, n)
    t.ok(same(floats, back), `floats of round ${round}`)
    const spread = 2 ** Math.floor(random() * 33)
    const ints = Int32Array.from({ length: n * 2 }, () => Math.floor((random() - 0.5) * spread))
    for (const [encode, decode, length] of [
      [encodeInts, decodeInts, n],
      [encodeInt64s, decodeInt64s, n * 2],
      [encodeTimes, decodeTimes, n * 2],
    ] as const) {
      const bytes = new ByteWriter(16)
      encode(bytes, ints, n)
      const halves = new Int32Array(length)
      decode(new ByteReader(bytes.bytes, 0, bytes.length), halves, n)
      t.same(halves, ints.slice(0, length), `${encode.name} of round ${round}`)
    }
  }
})

t.test('a crash at any byte of the tail leaves what was acknowledged before it', async (t) => {
  const { dir, file, lengths } = await written(5)
  const bytes = readFileSync(file)
  const work = join(dir, 'cut')
  mkdirSync(work)
  const cut = join(work, '000000000001.wal')
  for (let length = lengths[3]; length < bytes.length; length++) {
    writeFileSync(cut, bytes.subarray(0, length))
    const seen = replayed(work)
    t.equal(seen.records, 4, `cut at ${length}`)
    t.equal(readFileSync(cut).length, lengths[3], 'the torn tail is gone')
  }
  // Pages of the last commit that never reached the disk read as zeros.
  writeFileSync(cut, Buffer.concat([bytes.subarray(0, lengths[3]), Buffer.alloc(bytes.length - lengths[3])]))
  t.equal(replayed(work).records, 4, 'zeros')
  rmSync(dir, { recursive: true })
})

t.test('every single-bit flip is found, named with file and offset, and never read as data', async (t) => {
  const { dir, file } = await written(3)
  const bytes = readFileSync(file)
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const copy = Buffer.from(bytes)
    copy[bit >> 3] ^= 1 << (bit & 7)
    let fault: SvcError | undefined
    try {
      replay('', 1, { ...realFileSystem, readdirSync: () => ['000000000001.wal'], readFileSync: () => copy, truncateSync() {} }, () => {})
    } catch (error) {
      fault = error as SvcError
    }
    if (fault === undefined || !/000000000001\.wal" at offset \d+/.test(fault.message))
      t.fail(`bit ${bit & 7} of byte ${bit >> 3}: ${fault?.message ?? 'not found'}`)
  }
  t.pass(`${bytes.length * 8} flips found`)
  rmSync(dir, { recursive: true })
})

t.test('a missing file in the middle is refused', async (t) => {
  const { dir, file } = await written(2)
  const work = join(dir, 'gap')
  mkdirSync(work)
  copyFileSync(file, join(work, '000000000001.wal'))
  copyFileSync(file, join(work, '000000000003.wal'))
  t.throws(() => replayed(work), /000000000003\.wal.*000000000002\.wal, is missing/)
  rmSync(dir, { recursive: true })
})

t.test('a whole record behind a torn one of the same commit is not an acknowledged one', async (t) => {
  const { dir, file, lengths } = await written(2, 'x'.repeat(2000))
  const bytes = readFileSync(file)
  const work = join(dir, 'hole')
  mkdirSync(work)
  // Make the second record say that nothing but the header was durable when its commit began: one commit with the first.
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  view.setUint32(lengths[0] + 8, 8, true)
  view.setUint32(lengths[0] + 12, crc32c(bytes, lengths[0], lengths[0] + 12), true)
  bytes.fill(0, 512, 1024)
  writeFileSync(join(work, '000000000001.wal'), bytes)
  t.equal(replayed(work).records, 0)
  rmSync(dir, { recursive: true })
})

t.test('a write of very many equal rows, which take hardly a byte of the log, is read back', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'm')
  const series = engine.resolver.series(ref, ['host', 'a'])
  const table = batch.table(ref)
  const rows = 1 << 20
  for (let i = 0; i < rows; i++) table.column('v', 'float64').setF64(table.addRow(series, Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), i), 1)
  t.equal((await engine.write(batch)).written, rows)
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  const again = await openEngine(copy)
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1`])
  await closeAndRemove(again, copy)
})

t.test('a record that says more rows than it has times takes no memory for them', async (t) => {
  for (const rows of [0, 1, 2, 1000]) {
    const out = new ByteWriter()
    encodeInts(out, new Int32Array(rows), rows)
    encodeTimes(
      out,
      Int32Array.from({ length: rows * 2 }, (_, i) => (rows === 2 ? i : 7)),
      rows,
    )
    const reader = new ByteReader(out.bytes, 0, out.length)
    requireRows(reader, rows)
    t.equal(reader.position, 0)
    for (const other of [rows + 1, 2 ** 40]) t.throws(() => requireRows(reader, other), RangeError, `${other} of ${rows}`)
  }
})

/** A log of `n` commits of one row each: where it is and the file's length after each. */
async function written(n: number, host = 'a'): Promise<{ dir: string; file: string; lengths: number[] }> {
  const dir = tempDir()
  const engine = await openEngine(dir)
  const [name] = readdirSync(join(dir, 'wal'))
  const lengths: number[] = []
  for (let i = 0; i < n; i++) {
    await writeFloat(engine, 'm', host, NOW + BigInt(i), { v: i + 0.5, w: 1e-7 * i })
    lengths.push(readFileSync(join(dir, 'wal', name)).length)
  }
  const copy = crashCopy(dir)
  t.equal((await rowsOf(engine, 'm')).length, n)
  await closeAndRemove(engine, dir)
  return { dir: copy, file: join(copy, 'wal', name), lengths }
}

function replayed(dir: string): { records: number } {
  let rows = 0
  const result = replay(dir, 1, realFileSystem, (record) => {
    for (const table of record.tables) rows += table.rows
  })
  t.equal(rows, result.rows)
  return result
}

function same(a: Float64Array, b: Float64Array): boolean {
  return a.every((value, i) => Object.is(value, b[i]))
}
