/** vmagent, which first sends its own encoding of remote write (zstd) and falls back to snappy where a receiver does not take that. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { startNode } from './node.ts'
import { missing, ownMetric, startProgram } from './service.ts'
import { untilValues } from './values.ts'

const skip = missing('vmagent')
const ENCODINGS = {
  'as it chooses': [],
  'zstd at once': ['-remoteWrite.forceVMProto=true'],
  snappy: ['-remoteWrite.forcePromProto=true'],
}

for (const [encoding, flags] of Object.entries(ENCODINGS)) {
  test(`vmagent, ${encoding}: what it scrapes arrives, with stale markers when the target is gone`, { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-interop-vmagent-'))
    const node = await startNode({ plugins: ['remote_write', 'promql'] })
    t.after(async () => {
      await node.stop()
      await rm(folder, { recursive: true, force: true })
    })
    const address = `127.0.0.1:${await freePort()}`
    const targets = join(folder, 'targets.json')
    await writeFile(targets, JSON.stringify([{ targets: [address] }]))
    const scraping = `global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: vmagent\n  file_sd_configs: [{files: ['${targets}']}]\n`
    await writeFile(join(folder, 'scrape.yml'), scraping)
    const vmagent = await startProgram(
      'vmagent',
      [
        `-httpListenAddr=${address}`,
        `-remoteWrite.url=${node.url}/api/v1/prom/write`,
        `-remoteWrite.tmpDataPath=${join(folder, 'queue')}`,
        `-promscrape.config=${join(folder, 'scrape.yml')}`,
        '-promscrape.fileSDCheckInterval=1s',
        '-remoteWrite.flushInterval=500ms',
        ...flags,
      ],
      `http://${address}`,
      '/health',
    )
    try {
      const until = (query: string, enough: (found: number) => boolean) => untilValues(node, vmagent, query, ([found = 0]) => enough(found))
      await until('count_over_time(up{job="vmagent"}[1m])', (found) => found >= 3)
      await until('count({__name__=~"vmagent_.+"})', (found) => found > 50)
      await writeFile(targets, '[]')
      await until('count({job="vmagent"})', (found) => found === 0)
      assert.ok((await ownMetric(vmagent.url, 'vmagent_remotewrite_requests_total{.*status_code="2.*}')) > 0)
      assert.equal(await ownMetric(vmagent.url, 'vmagent_remotewrite_requests_total{.*status_code="[345].*}'), 0, vmagent.output())
      assert.equal(await ownMetric(vmagent.url, 'vmagent_remotewrite_retries_count_total{.*}'), 0, vmagent.output())
      assert.equal(await ownMetric(vmagent.url, 'vmagent_remotewrite_packets_dropped_total{.*}'), 0, vmagent.output())
      assert.doesNotMatch(vmagent.output(), /\b(error|warn)\b.*remote_?write/i)
    } finally {
      await vmagent.stop()
    }
  })
}
