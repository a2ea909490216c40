/** Prometheus and a node that have the same random data. */
import { after } from 'node:test'
import type { Random } from '../../../kernel/lib/random/index.ts'
import { startNode } from '../node.ts'
import { startPrometheus } from '../prometheus.ts'
import { INTERVAL_MS, randomData, SAMPLES } from './data.ts'
import { remoteWrite } from './samples.ts'

/** Of the data. */
export const START_MS = Date.UTC(2024, 5, 1)
export const END_MS = START_MS + SAMPLES * INTERVAL_MS

/** Both stop after the tests of the file. @returns their URLs. */
export async function startPair(random: Random): Promise<{ prometheus: string; node: string }> {
  const [prometheus, node] = [await startPrometheus(), await startNode({ plugins: ['remote_write', 'promql'] })]
  after(async () => {
    await prometheus.stop()
    await node.stop()
  })
  const series = randomData(random, START_MS)
  await remoteWrite(`${prometheus.url}/api/v1/write`, series)
  await remoteWrite(`${node.url}/api/v1/prom/write?backfill=true`, series)
  return { prometheus: prometheus.url, node: node.url }
}
