/** Glances, which exports what it measures on its host to InfluxDB 1, 2 and 3. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, execute, lackingPython } from './program.ts'

const skip = lackingPython('glances')

for (const [version, section] of [
  ['influxdb', 'user=root\npassword=root\ndb=glances'],
  ['influxdb2', 'org=plant\nbucket=glances\ntoken=any'],
  ['influxdb3', 'org=plant\ndatabase=glances\ntoken=any'],
] as const)
  test(`Glances, export ${version}`, { skip }, async (t) => {
    const node = await startNode()
    t.after(() => node.stop())
    const { hostname: host, port } = new URL(node.url)
    // For version 3 it takes an address for the host, and does not look at the port.
    const config = `[${version}]\nhost=${version === 'influxdb3' ? node.url : host}\nport=${port}\nprotocol=http\n${section}\n`
    await writeFile(join(node.folder, 'glances.conf'), config)
    const { code, stdout, stderr } = await execute(cached('python/bin/glances'), [
      ...['-C', join(node.folder, 'glances.conf'), '--export', version],
      ...['--quiet', '--time', '1', '--stop-after', '3'],
    ])
    assert.equal(code, 0, stdout + stderr)
    const [mem] = await node.arrived('mem', 1)
    assert.equal(mem.tags.hostname, hostname())
    assert.equal(typeof mem.fields.percent, 'number')
    for (const measurement of ['cpu', 'load', 'percpu', 'fs']) assert.notDeepEqual(await node.rows(measurement), [], measurement)
    assert.doesNotMatch(node.output(), /partial write|unable to parse/)
  })
