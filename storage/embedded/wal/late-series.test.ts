/** Series that the log of an earlier server defines behind one of a higher number: where they are looked for, and what a crash has left of them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Column } from 'svcdb/lib/columns'
import t from 'tap'
import type { ByteWriter } from '../../common/log/bytes.ts'
import { paths, walFileName } from '../paths.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir } from '../testing/harness.ts'
import { LogDisk } from '../testing/log-disk.ts'
import { LogProcess } from '../testing/log-process.ts'
import { lateSeries } from './late-series.ts'
import { type Definitions, encodeWrite } from './record.ts'

const V = { id: 0, name: 'v', type: 'float64' as const, scale: 0, column: 'v' }
const CPU: Definitions = {
  measurements: [{ id: 0, namespace: '', name: 'cpu' }],
  fields: [{ measurement: 0, field: V }],
  tables: [{ id: 0, measurement: 0 }],
  homes: [{ measurement: 0, table: 0 }],
}
const hostOf = (series: number): string => `host${series}`
const definition = (series: number) => ({ series, measurement: 0, tags: ['host', hostOf(series)] })
/** What is found, by the numbers of the series. */
const found = (disk: LogDisk, floor = 1): unknown[] => [...lateSeries('wal', floor, disk.fs).values()].sort((a, b) => a.series - b.series)

/** A write of one row of each of these series, which it defines. */
function encode(out: ByteWriter, sequence: number, numbers: readonly number[]): void {
  const column = new Column('v', 'float64', numbers.length)
  for (const [row, series] of numbers.entries()) column.setF64(row, series)
  const time = Int32Array.from(numbers.flatMap(() => [Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n)]))
  const table = { table: 0, rows: numbers.length, series: Int32Array.from(numbers), time, columns: [column], fields: [V] }
  const record = { sequence, definitions: sequence === 1 ? CPU : undefined, tables: [table], heap: new Uint8Array(0), series: numbers.map(definition) }
  encodeWrite(out, record, {
    writeTags: (out, series) => {
      out.varint(1)
      out.text('host')
      out.text(hostOf(series))
    },
  })
}

/** A log of these files, each with records of the series that they define; `null` = a change, `'bad'` = a record that does not decode. */
async function logOf(...files: (readonly number[] | null | 'bad')[][]): Promise<{ disk: LogDisk; ends: number[][] }> {
  const disk = new LogDisk(() => 0)
  const log = new LogProcess(disk, { kind: 'per_batch' })
  await log.start()
  const ends: number[][] = []
  let sequence = 0
  for (const [i, records] of files.entries()) {
    if (i > 0) await disk.run(log.rotate())
    ends.push([])
    for (const record of records) {
      sequence++
      if (record === null) log.append(sequence)
      else if (record === 'bad')
        log.wal.append(
          (out) => out.u8(1),
          () => {},
          t.error,
        )
      else
        log.wal.append(
          (out) => encode(out, sequence, record),
          () => {},
          t.error,
        )
      log.settle()
      ends[i].push(log.wal.length)
    }
  }
  disk.kill()
  return { disk, ends }
}

t.test('are those behind a higher number, whatever lies between and in whichever file', async (t) => {
  const { disk } = await logOf(
    [[0], [3, 5], null, [4]],
    [
      [1, 2],
      [6, 7],
    ],
  )
  t.same(found(disk), [1, 2, 4].map(definition))
  t.same(found(disk, 2), [], 'what is below the floor is in the catalog')
  t.same(found((await logOf([[0], [1, 2]], [[3]])).disk), [])
})

t.test('end where the log is torn, at whatever byte', async (t) => {
  const { disk, ends } = await logOf([[0], [3]], [[1], [4], [2]])
  const last = walFileName(2)
  const bytes = (disk.files.get(last) as Uint8Array).slice()
  t.equal(ends[1][2], bytes.length)
  for (let length = 0; length <= bytes.length; length++) {
    disk.put(last, bytes.slice(0, length))
    const whole = [1, 4, 2].filter((_, i) => ends[1][i] <= length)
    const wanted = whole.filter((series) => series !== 4).sort()
    t.same(found(disk), wanted.map(definition), `cut at ${length}`)
  }
  const zeros = bytes.slice()
  zeros.fill(0, ends[1][0])
  disk.put(last, zeros)
  t.same(found(disk), [definition(1)], 'a header that was never written')
  disk.put(last, new Uint8Array(8))
  t.same(found(disk), [], 'nor that of the file')
})

t.test('end at a record that is not whole or does not decode: what lies behind it is nobody’s to guess', async (t) => {
  t.same(found((await logOf([[3], [1], 'bad', [2]], [[0]])).disk), [definition(1)])
  const { disk, ends } = await logOf([[3], [1], [2]], [[0]])
  const bytes = (disk.files.get(walFileName(1)) as Uint8Array).slice()
  bytes[ends[0][2] - 1] ^= 1
  disk.put(walFileName(1), bytes)
  t.same(found(disk), [definition(1)])
})

t.test('have their own rows after a start', async (t) => {
  const dir = tempDir()
  await (await openEngine(dir)).close()
  const { disk } = await logOf([[2], [0], [1, 3]])
  // The first start has used the number 1.
  writeFileSync(join(paths(dir).wal, walFileName(2)), disk.files.get(walFileName(1)) as Uint8Array)
  const engine = await openEngine(dir)
  t.teardown(() => closeAndRemove(engine, dir))
  const rows = [0, 1, 2, 3].map((series) => `${hostOf(series)} ${NOW} v=${series}`)
  t.same(await rowsOf(engine, 'cpu'), rows)
  await engine.flush()
  t.same(await rowsOf(engine, 'cpu'), rows)
})
