/** The worked example of docs/formats/rollups.md is what the code reads and writes, under the keys of that page. */
import { readFileSync } from 'node:fs'
import { boot, mapState } from 'svcdb/testkit'
import t from 'tap'
import { Registry } from '../../plugins/rollups/registry.ts'
import { type KeptRollup, Rollup } from '../../plugins/rollups/rollup.ts'
import { eventually } from '../support/until.ts'

const page = readFileSync(new URL('../../docs/formats/rollups.md', import.meta.url), 'utf8')
const example = <T>(name: string): T => JSON.parse(new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? '') as T

const definition = example<KeptRollup['definition']>('defined')
const progress = example<KeptRollup>('progress')
const position = example<string>('position')
const history = position.split('-')[0]

t.test('a rollup is read, and written again as it was', async (t) => {
  t.same(progress.definition, definition)
  t.same(Rollup.restore(progress, 16).kept(), progress)
  const named = [...page.matchAll(/^\| `(\w+)` \| /gm)].map(([, name]) => name)
  const all = { ...progress, lost: '1699992000000000000', unclipped: true } as const
  t.same(Rollup.restore(all, 16).kept(), all)
  t.same(Object.keys(all).sort(), named.sort(), 'the page has each member')
})

t.test('what is stored under those keys is where a node goes on', async (t) => {
  const state = mapState()
  await state.transaction((tx) => {
    tx.put('defined//cpu_hourly', definition)
    tx.put('rollup//cpu_hourly', { definition, dirty: [] })
    tx.put(`progress/${history}//cpu_hourly`, progress)
    tx.put(`position/${history}`, position)
  })
  const registry = new Registry({ perNamespace: 10, perSource: 10, tiers: 16, inAll: 10, dirtyRanges: 16 })
  const nothing = { made: t.fail, deleted: t.fail, failed: t.fail }
  await registry.open(state, { now: position, shared: false }, nothing)
  t.teardown(() => registry.close())
  t.equal(registry.position, position)
  t.same(registry.get('', 'cpu_hourly')?.kept(), progress)
})

t.test('a node writes no others', async (t) => {
  const node = await boot({ plugins: ['rollups', 'line_protocol'], storage: 'embedded' })
  t.teardown(() => node.stop())
  for (const hours of [100, 50, 0])
    await node.inject({ method: 'POST', url: '/write?backfill=true', payload: `cpu,host=a usage=1 ${BigInt(Date.now() - hours * 3_600_000) * 1_000_000n}` })
  const payload = {
    name: 'cpu_hourly',
    source_measurement: 'cpu',
    target_measurement: 'cpu_1h',
    every: '1h',
    aggregations: ['avg', 'max'],
    group_by_tags: ['host'],
  }
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/rollups', payload })).statusCode, 201)
  const kept = await eventually(async () => {
    const all = await node.storage.state('rollups').list<KeptRollup>()
    return all.length >= 4 && all.some(({ value }) => value.until !== undefined) && all
  })
  const [, own] = /^position\/(\w+)$/.exec(kept.map(({ key }) => key).find((key) => key.startsWith('position/')) ?? '') ?? []
  t.same(
    kept.map(({ key }) => key),
    ['defined//cpu_hourly', `position/${own}`, `progress/${own}//cpu_hourly`, 'rollup//cpu_hourly'],
  )
  t.same(Object.keys(kept[0].value).sort(), Object.keys(definition).sort())
})
