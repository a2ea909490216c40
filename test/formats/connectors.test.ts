/** The examples of docs/formats/connectors.md are what the code reads and writes, under the keys of that page. */
import { readFileSync } from 'node:fs'
import type { StateStore } from 'svcdb'
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import { type SinkPosition, SinkPositions } from '../../plugins/kafka/sink/position.ts'
import { SessionTopics } from '../../plugins/mqtt/session-topics.ts'
import { MetadataStore, type MetricRecord } from '../../plugins/remote_write/metadata.ts'
import { MetadataKeeper } from '../../plugins/remote_write/metadata-keeper.ts'

const page = readFileSync(new URL('../../docs/formats/connectors.md', import.meta.url), 'utf8')
const example = <T>(name: string): T => JSON.parse(new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? '') as T

/** The key of a plugin as the page has it. */
function keyOf(plugin: string, parts: Record<string, string>): string {
  const [, key] = new RegExp(`^\\| \\[${plugin}\\]\\S+ \\| \`([^\`]+)\``, 'm').exec(page) ?? []
  return (key ?? '').replaceAll(/<(?!U\+)(\w+)>/g, (_, name) => parts[name]).replace('<U+0001>', '\u0001')
}

async function holding(key: string, value: unknown): Promise<StateStore> {
  const state = mapState()
  await state.transaction((tx) => tx.put(key, value))
  return state
}

t.test('how far a sink of Kafka is', async (t) => {
  const kept = example<SinkPosition>('sink')
  const [history] = kept.position.split('-')
  const key = keyOf('kafka', { sink: 'lake', history })
  for (const at of [key, 'sinks/lake']) {
    const state = await holding(at, kept)
    const positions = new SinkPositions(state, 'lake', { history, shared: true })
    t.same(await positions.read(), kept, at)
    const next = { position: kept.partial?.position as string }
    await positions.keep(next)
    t.same(await state.list(), [{ key, value: next }])
  }
})

t.test('topics of a session of MQTT', async (t) => {
  const kept = example<{ session: string; topics: string[] }>('topics')
  const state = await holding(keyOf('mqtt', { connector: 'plant' }), kept)
  const session = new SessionTopics(state, 'plant', kept.session)
  t.same(await session.begin(['line/#']), kept.topics, 'those that it may have beside them')
  await session.keep(kept.topics)
  t.same(await state.list(), [{ key: keyOf('mqtt', { connector: 'plant' }), value: kept }])
})

t.test('metadata of a metric', async (t) => {
  const kept = example<MetricRecord>('metadata')
  const key = keyOf('remote_write', { namespace: kept.namespace, metric: kept.metric })
  const keeperOf = (store: MetadataStore) => new MetadataKeeper(store, 60_000, { warn: t.fail } as never)
  const limits = { metrics: 10, bytes: 1_000_000, perMetric: 2, textBytes: 1000 }
  const read = new MetadataStore(limits)
  const keeper = keeperOf(read)
  await keeper.start(await holding(key, kept))
  t.teardown(() => keeper.stop())
  const shown = kept.said.map((each) => ({ metric: kept.metric, ...each }))
  t.same([...read.list(kept.namespace)], shown)
  const state = mapState()
  const written = new MetadataStore(limits)
  const other = keeperOf(written)
  await other.start(state)
  for (const each of shown) written.note(kept.namespace, each)
  await other.stop()
  t.same(await state.list(), [{ key, value: kept }])
})
