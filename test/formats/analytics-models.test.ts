/** The examples of docs/formats/analytics-models.md are what the code reads. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { keyOf } from '../../plugins/analytics/models/definition.ts'
import type { KeptModel } from '../../plugins/analytics/models/record.ts'

const page = readFileSync(new URL('../../docs/formats/analytics-models.md', import.meta.url), 'utf8')
const fence = (name: string): string => (new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? '').trim()

t.test('a model as it is written down', async (t) => {
  const kept = JSON.parse(fence('model')) as KeptModel
  const state = fence('state')
  const [version] = kept.versions
  t.equal(createHash('sha256').update(state).digest('hex'), version.checksum)
  const { namespace, measurement, name } = kept.definition
  t.match(keyOf(namespace, measurement, name), /^\/[0-9a-f]{32}$/)
  const dataDir = temporaryFolder(t)
  const config = { analytics: { watch_interval_secs: 86_400 } }
  const first = await boot({ plugins: ['sql', 'line_protocol'], storage: 'embedded', dataDir, config })
  const { retrain: _, ...ready } = kept
  await first.storage.state('analytics').transaction((tx) => {
    tx.put(`model/${keyOf(namespace, measurement, name)}`, ready)
    tx.put(`state/${keyOf(namespace, measurement, name)}/1`, state)
    tx.put('derived//mem_share', JSON.parse(fence('derived')))
  })
  await first.stop()
  const second = await boot({ plugins: ['sql', 'line_protocol'], storage: 'embedded', dataDir, config })
  t.teardown(() => second.stop())
  t.match((await second.inject('/api/v1/analytics/derived')).json(), { count: 1, derived: [{ name: 'mem_share', lookback_secs: 3600 }] })
  const shown = (await second.inject('/api/v1/admin/analytics/models/cpu/daily')).json()
  t.match(shown, {
    name: 'daily',
    model_type: 'HoltWinters',
    version: 1,
    mse: 0.25,
    status: 'ready',
    parameters: { level: 42 },
    range: { last_secs: 2_592_000 },
  })
  await second.inject({ method: 'POST', url: '/write?backfill=true', payload: 'cpu,host=a load=44 1700003660000000000' })
  const asked = (await second.inject('/api/v1/analytics/models/cpu/daily/forecast?horizon=2')).json()
  t.same(asked.values, [43, 43], 'the level of 42, half of the way to the 44 that came')
})
