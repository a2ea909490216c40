/** Apache JMeter writes the results of its load tests by a listener of its own, to the APIs of InfluxDB 1 and 2. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, client, hasCompiler, lacking, runChecks } from './program.ts'

const JARS = 'jmeter-jars'
const skip = lacking('Apache JMeter', JARS) || (hasCompiler() ? false : 'there is no JDK: no java with a compiler is on the path')

const APIS = [
  { name: 'one', path: '/write?db=jmeter' },
  { name: 'two', path: '/api/v2/write?org=any&bucket=jmeter' },
]

test('the backend listener of JMeter, by the API of InfluxDB 1 and by that of InfluxDB 2', { skip }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  const folder = await mkdtemp(join(tmpdir(), 'svc-jmeter-'))
  t.after(() => rm(folder, { recursive: true }))
  const properties = join(folder, 'jmeter.properties')
  await writeFile(properties, 'backend_influxdb.send_interval=1\n')
  for (const { name, path } of APIS)
    await runChecks(t, 'java', ['-cp', `${cached(JARS)}/*`, client('JMeterListener.java'), `${node.url}${path}`, name, properties])
  const results = await node.rows('jmeter')
  const events = await node.rows('events')
  for (const { name } of APIS) {
    const own = results.filter(({ tags }) => tags.application === name)
    const [all] = own.filter(({ tags }) => tags.transaction === 'all' && tags.statut === 'all')
    assert.equal(all.tags.stage, 'a b')
    assert.deepEqual([all.fields.count, all.fields.countError, all.fields.hit], [10, 2, 10])
    const calls = own.filter(({ tags }) => tags.transaction === 'GET /a b,c=é')
    const [each] = calls.filter(({ tags }) => tags.statut === 'all')
    assert.deepEqual([each.fields.count, each.fields.min, each.fields.max], [10, 100, 109])
    const failures = calls.filter(({ tags }) => tags.responseCode === '500')
    assert.deepEqual(
      failures.map(({ tags, fields }) => [tags.responseMessage, fields.count]),
      [['said "no", x=y', 2]],
    )
    const texts = events.filter(({ tags }) => tags.application === name).map(({ fields }) => String(fields.text))
    assert.deepEqual(texts.map((text) => text.split(' ').at(-1)).sort(), ['ended', 'started'])
  }
})
