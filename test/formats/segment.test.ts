/** A segment is plain Parquet: another reader finds the rows that docs/formats/segments.md promises. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import t from 'tap'
import { closeAndRemove, NOW, openEngine, tempDir, writeFloat } from '../../storage/embedded/testing/harness.ts'

t.test('another Parquet reader finds series, times and values', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  for (let i = 0; i < 6; i++) await writeFloat(engine, 'm', `h${i % 2}`, NOW + BigInt(i), { half: i / 2, third: i / 3 })
  await engine.flush()
  const [file] = readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'))
  t.match(file, new RegExp(`^shard_${NOW / 3_600_000_000_000n}/\\d{10}\\.parquet$`))
  const rows = (await parquetReadObjects({ file: await asyncBufferFromFile(join(dir, 'segments', file)), compressors, parsers: rawTimes })) as Record<
    string,
    unknown
  >[]
  t.same(
    rows.map(({ _series, _time, half, third }) => [Number(_series), _time, half, third]),
    [0, 2, 4, 1, 3, 5].map((i) => [i % 2, NOW + BigInt(i), i * 5, i / 3]),
    'ordered by series and time; halves are integers of value * 10, thirds are doubles as they are',
  )
  await closeAndRemove(engine, dir)
})

const rawTimes = { timestampFromNanoseconds: (ns: bigint) => ns }
