/** Data of every format version that was ever released: opened, compared with what it answered then, written to, and opened again. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import t from 'tap'
import { testContext } from '../../storage/conformance/index.ts'
import { f64, i64, lines, MINUTE, NOW, NOW_MS, str, write } from '../../storage/conformance/points.ts'
import { FORMAT_VERSION } from '../../storage/embedded/catalog/store.ts'
import { EmbeddedEngine } from '../../storage/embedded/engine.ts'
import { type Answers, answers } from './answers.ts'

t.setTimeout(120_000)
const HERE = import.meta.dirname
const SAMPLES = readdirSync(HERE).filter((name) => /^v\d+$/.test(name))

function copyOf(sample: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-compat-'))
  cpSync(join(HERE, sample), dir, { recursive: true })
  return dir
}

async function withEngine<T>(dir: string, body: (engine: EmbeddedEngine) => Promise<T>): Promise<T> {
  const engine = new EmbeddedEngine(testContext({ data_dir: dir }, () => NOW_MS))
  try {
    await engine.open()
    return await body(engine)
  } finally {
    await engine.close()
  }
}

/** Entries as they lie in LMDB, by another reader than the engine's. */
async function stored(dir: string): Promise<Map<string, Buffer>> {
  const db = open<Buffer, string>({ path: join(dir, 'catalog'), encoding: 'binary', overlappingSync: false })
  const found = new Map([...db.getRange({})].map(({ key, value }) => [key, Buffer.from(value)]))
  await db.close()
  return found
}

async function mark(dir: string, text: string): Promise<void> {
  const db = open<Buffer, string>({ path: join(dir, 'catalog'), encoding: 'binary', overlappingSync: false })
  await db.put('meta/format', Buffer.from(text))
  await db.close()
}

t.test('there are samples of every version before this one', async (t) => {
  t.same(
    SAMPLES,
    Array.from({ length: FORMAT_VERSION - 1 }, (_, i) => `v${i + 1}`),
  )
})

for (const version of SAMPLES) {
  const expected = JSON.parse(readFileSync(join(HERE, version, 'expected.json'), 'utf8')) as Answers
  for (const kind of ['stopped', 'killed']) {
    t.test(`${version}, ${kind}: answers as before, takes writes, and answers again`, async (t) => {
      const dir = copyOf(`${version}/${kind}`)
      t.teardown(() => rmSync(dir, { recursive: true }))
      const before = await stored(dir)
      await withEngine(dir, async (engine) => t.strictSame(await answers(engine), expected, 'at once'))
      await withEngine(dir, async (engine) => {
        t.strictSame(await answers(engine), expected, 'after a restart')
        await write(engine, [
          { measurement: 'machine', tags: { host: 'a', dc: 'eu' }, time: NOW - 30n * MINUTE, fields: { state: str('upgraded'), hits: i64(5n) } },
          { measurement: 'two', tags: { host: 'b' }, time: NOW + 9n, fields: { value: f64(0.5), more: str('second field') } },
          { measurement: 'many', tags: { n: 's1100' }, time: NOW, fields: { value: f64(1100) } },
        ])
        await engine.flush()
        await write(engine, [{ measurement: 'fresh', tags: { host: 'a' }, time: NOW, fields: { value: f64(1) } }])
        await engine.state('tasks').transaction((tx) => tx.put('b/1', 'two'))
      })
      await withEngine(dir, async (engine) => {
        const after = await answers(engine)
        t.not(after.points.default.many[0], expected.points.default.many[0])
        t.match(after.points.default.many[0], /^1101 lines/)
        const changed = expected.points.default.machine.map((line) =>
          line.startsWith('{"dc":"eu","host":"a"} 1704108600000000000') ? line.replace('"again"', '"upgraded"').replace('int64:-3', 'int64:5') : line,
        )
        t.strictSame(after.points.default.machine, changed, 'a repeat of an old row')
        t.equal(after.points.default.two.length, expected.points.default.two.length + 1)
        t.strictSame(await lines(engine, { measurement: 'fresh' }), [`{"host":"a"} ${NOW} value=float64:1`])
        t.strictSame(after.points.plant, expected.points.plant)
        t.equal(await engine.state('tasks').get('b/1'), 'two')
      })
      const entries = await stored(dir)
      t.match(JSON.parse(String(entries.get('meta/format'))), { format: FORMAT_VERSION })
      const segments = [...entries].filter(([key]) => key.startsWith('segment/')).map(([, value]) => String(value))
      t.ok(segments.length > 0)
      for (const segment of segments) t.match(segment, /"crc":\d+/, 'segments of before have their checksum now')
      t.ok(
        [...before.keys()].every((key) => entries.has(key) || key.startsWith('segment/') || key === 'meta/cuts'),
        'nothing was lost',
      )
    })
  }
}

t.test('data of a later version is refused, naming both', async (t) => {
  const dir = copyOf('v1/stopped')
  t.teardown(() => rmSync(dir, { recursive: true }))
  for (const later of [FORMAT_VERSION + 1, 99]) {
    await mark(dir, JSON.stringify({ format: later }))
    await t.rejects(
      withEngine(dir, async () => t.fail('it opened')),
      { code: 'CONFIG_ERROR', message: new RegExp(`version ${later},.*version ${FORMAT_VERSION};`) },
    )
  }
})

t.test('a version that was not written is damage, and not another version', async (t) => {
  const dir = copyOf('v1/stopped')
  t.teardown(() => rmSync(dir, { recursive: true }))
  await withEngine(dir, async () => {})
  const whole = String((await stored(dir)).get('meta/format'))
  for (const wrong of [
    ...[1, 2, FORMAT_VERSION + 1].map((format) => whole.replace(`"format":${FORMAT_VERSION}`, `"format":${format}`)),
    `{"format":${FORMAT_VERSION}}`,
    '{"format":2}',
    '{"format":1}',
    '{',
    '[]',
    'null',
  ]) {
    await mark(dir, wrong)
    await t.rejects(
      withEngine(dir, async () => t.fail('it opened')),
      { code: 'DATABASE_ERROR', message: /catalog\/data\.mdb.*meta\/(format|sum)/ },
      wrong,
    )
  }
  await mark(dir, whole)
  await withEngine(dir, async (engine) => t.ok((await answers(engine)).sql))
})
