/** Prometheus as an agent, which keeps nothing but a log of what it has still to send. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { eventually } from '../support/until.ts'
import { startNode } from './node.ts'
import { noPrometheus } from './prometheus.ts'
import { ownMetric, startProgram } from './service.ts'
import { untilValues, valuesOf } from './values.ts'

for (const [version, message] of Object.entries({ '1.0': 'prometheus.WriteRequest', '2.0': 'io.prometheus.write.v2.Request' })) {
  test(`an agent, remote write ${version}: what it scrapes arrives, and what was refused for a while`, { skip: noPrometheus }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-interop-agent-'))
    const node = await startNode({ plugins: ['remote_write', 'promql'] })
    t.after(async () => {
      await node.stop()
      await rm(folder, { recursive: true, force: true })
    })
    const address = `127.0.0.1:${await freePort()}`
    const targets = join(folder, 'targets.json')
    await writeFile(targets, JSON.stringify([{ targets: [address] }]))
    const config = `global: {scrape_interval: 1s}
scrape_configs:
- job_name: agent
  file_sd_configs: [{files: ['${targets}'], refresh_interval: 1s}]
remote_write:
- url: ${node.url}/api/v1/prom/write
  protobuf_message: ${message}
  send_native_histograms: true
  queue_config: {batch_send_deadline: 200ms, min_backoff: 30ms, max_backoff: 200ms}
  metadata_config: {send_interval: 1s}
`
    await writeFile(join(folder, 'agent.yml'), config)
    const args = [
      '--agent',
      '--enable-feature=metadata-wal-records',
      `--config.file=${join(folder, 'agent.yml')}`,
      `--storage.agent.path=${join(folder, 'data')}`,
      `--web.listen-address=${address}`,
    ]
    const agent = await startProgram('prometheus', args, `http://${address}`, '/-/ready')
    try {
      const count = async (query: string): Promise<number> => (await valuesOf(node.url, query))[0] ?? 0
      const until = (query: string, enough: (found: number) => boolean) => untilValues(node, agent, query, ([found = 0]) => enough(found))
      await until('count_over_time(up{job="agent"}[5m])', (found) => found >= 3)
      await node.fail('BACKPRESSURE', 5)
      await until('count_over_time(up{job="agent"}[5m])', (found) => found >= 8)
      assert.equal(await node.failed(), 5)
      assert.ok((await ownMetric(agent.url, 'prometheus_remote_storage_samples_retried_total{.*}')) > 0)
      assert.equal(await ownMetric(agent.url, 'prometheus_remote_storage_samples_failed_total{.*}'), 0, agent.output())
      assert.equal(await ownMetric(agent.url, 'prometheus_remote_storage_samples_dropped_total{.*}'), 0, agent.output())
      // It counts its scrapes: each number between the first and the last is there, but where a scrape itself came to nothing.
      const scrapes = 'prometheus_target_interval_length_seconds_count{job="agent"}[5m]'
      const missing = `max_over_time(${scrapes}) - min_over_time(${scrapes}) + 1 - count_over_time(${scrapes})`
      const failed = 'sum_over_time((up{job="agent"} == bool 0)[5m:1s])'
      assert.ok((await count(missing)) <= (await count(failed)), `missing scrapes: ${await count(missing)}`)
      const told = async (): Promise<string | undefined> => {
        const answer = await fetch(`${node.url}/api/v1/metadata?metric=prometheus_build_info`)
        return ((await answer.json()) as { data: Record<string, { type: string }[]> }).data.prometheus_build_info?.[0].type
      }
      await eventually(async () => (await told()) === 'gauge')
      await writeFile(targets, '[]')
      await until('count({job="agent"})', (found) => found === 0)
    } finally {
      await agent.stop()
    }
  })
}
