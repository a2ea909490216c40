import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { f64, i64, NOW, str, write } from '../conformance/points.ts'
import { CLOCK, edgeOf, metricsOf, upstream } from './testing.ts'

t.test('dead letters that give way to newer ones are counted', async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  await write(node.storage, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: str('text') } }], { namespace: '' })
  const forward = { upstream: [{ name: 'one', url }], batch_interval_ms: 0, dead_letter_bytes: 65_536 }
  const edge = await boot({ plugins: ['line_protocol'], storage: 'forward', clock: CLOCK, config: { database: { data_dir: temporaryFolder(t), forward } } })
  t.teardown(() => edge.stop())
  const value = async (name: string) => Number(new RegExp(`^${name}(?:\\{.*\\})? (\\d+)$`, 'm').exec((await edge.inject('/metrics')).body)?.[1])
  t.equal(await value('svc_forward_dead_letters_dropped_total'), 0, 'it is there before it counts')
  const points = Array.from({ length: 800 }, (_, n) => ({ measurement: 'cpu', tags: { host: `h${n}` }, time: NOW + BigInt(n), fields: { v: f64(n) } }))
  await write(edge.storage, points, { namespace: '' })
  while ((await value('svc_forward_set_aside_points_total')) !== 800) await new Promise((resolve) => setTimeout(resolve, 5))
  const dropped = await value('svc_forward_dead_letters_dropped_total')
  t.ok(dropped > 100 && dropped < 800, `${dropped} are gone`)
})

t.test('a dead letter has tags and fields of every name', async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  await write(node.storage, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: str('text') } }], { namespace: '' })
  const data_dir = temporaryFolder(t)
  const edge = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url }] } })
  await edge.open()
  const tags = JSON.parse('{"__proto__":"a","constructor":"b"}')
  const fields = Object.fromEntries([
    ['v', f64(1)],
    ['__proto__', i64(2n)],
  ])
  await write(edge, [{ measurement: 'cpu', tags, time: NOW, fields }], { namespace: '' })
  await edge.drained()
  await edge.close()
  const folderOf = join(data_dir, 'dead-letters')
  const [name] = await readdir(folderOf)
  const { body } = JSON.parse(await readFile(join(folderOf, name), 'utf8'))
  const kept = JSON.parse(Buffer.from(body, 'base64').toString('utf8'))
  t.same(Object.entries(kept.tags), [
    ['__proto__', 'a'],
    ['constructor', 'b'],
  ])
  t.same(Object.entries(kept.fields), [
    ['v', 1],
    ['__proto__', { type: 'int64', value: '2' }],
  ])
})

t.test('where dead letters cannot be written, that is said, and what is refused waits', { timeout: 30_000 }, async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  await write(node.storage, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: str('text') } }], { namespace: '' })
  const data_dir = temporaryFolder(t)
  const said: string[] = []
  const say = (o: object, text?: string): void => void said.push(`${text} ${JSON.stringify(o)}`)
  const log = { debug() {}, info() {}, warn() {}, error: say }
  const edge = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url }] } }, { log })
  await edge.open()
  t.teardown(() => edge.close())
  const letters = join(data_dir, 'dead-letters')
  await writeFile(letters, '')
  await write(edge, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: f64(1) } }], { namespace: '' })
  while (said.length === 0) await new Promise((go) => setTimeout(go, 5))
  t.match(said[0], /^cannot write dead letters: points that the upstream has refused wait, and all behind them; .*dead-letters/)
  const [connector] = edge.connectors()
  t.match(connector.status(), { status: { failed: /cannot write dead letters/ }, up: false })
  t.equal(connector.lag?.(), 1)
  const tries = async (): Promise<number> => (await metricsOf(edge).waits.get()).values.reduce((sum, { value }) => sum + value, 0)
  while ((await tries()) < 2) await new Promise((go) => setTimeout(go, 5))
  await rm(letters)
  await edge.drained()
  t.equal(said.length, 1, 'once')
  t.match(connector.status(), { up: true, deadLettered: 1 })
  t.same(await readdir(letters), ['forward-upstream.jsonl'])
})

t.test('of points that are set aside in several tries each is there once', { timeout: 60_000 }, async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  await write(node.storage, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: str('text') } }], { namespace: '' })
  const data_dir = temporaryFolder(t)
  const said: string[] = []
  const log = { debug() {}, info() {}, warn() {}, error: (_: object, text?: string): void => void said.push(`${text}`) }
  const edge = edgeOf({ data_dir, max_string_bytes: 131_072, forward: { upstream: [{ name: 'one', url }], dead_letter_bytes: 131_072 } }, { log })
  await edge.open()
  t.teardown(() => edge.close())
  const letters = join(data_dir, 'dead-letters')
  const file = join(letters, 'forward-upstream.jsonl')
  // The last one does not go in the file with the others. Where that is to go to, there is a folder.
  await mkdir(join(`${file}.1`, 'in the way'), { recursive: true })
  const points = [3000, 3000, 3000, 94_000].map((length, n) => ({
    measurement: 'cpu',
    tags: { host: `h${n}` },
    time: NOW + BigInt(n),
    fields: { v: f64(n), note: str('x'.repeat(length)) },
  }))
  await write(edge, points, { namespace: '' })
  while (said.length === 0) await new Promise((go) => setTimeout(go, 5))
  await rm(`${file}.1`, { recursive: true })
  await edge.drained()
  const kept = await Promise.all([`${file}.1`, file].map((path) => readFile(path, 'utf8')))
  t.ok(kept[1].length > 0)
  const bodies = kept.flatMap((lines) => lines.trim().split('\n')).map((line) => Buffer.from(JSON.parse(line).body, 'base64').toString())
  t.same(bodies.map((body) => /"host":"(h\d)"/.exec(body)?.[1]).sort(), ['h0', 'h1', 'h2', 'h3'])
})
