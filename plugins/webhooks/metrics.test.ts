import { definePlugin } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { webhooksMetrics } from './metrics.ts'

t.test('a scrape looks at the endpoints once', async (t) => {
  let looks = 0
  const endpoints = { active: 3, failing: 2, parked: 1 }
  const plugin = definePlugin({
    id: 'webhooks_metrics',
    summary: 'gauges of webhooks',
    stability: 'experimental',
    setup: (svc) => void webhooksMetrics(svc.metrics, () => ({ waiting: ++looks, bytes: looks * 600, oldestSeconds: 5, inFlight: 4, endpoints })),
  })
  const node = await boot({ plugins: [plugin] })
  t.teardown(() => node.stop())
  for (let scrape = 1; scrape <= 2; scrape++) {
    const text = await node.node.metrics.text()
    t.equal(looks, scrape)
    for (const line of [
      `webhook_queue_length ${scrape}`,
      `webhook_queue_bytes ${scrape * 600}`,
      'webhook_queue_oldest_age_seconds 5',
      'webhook_in_flight 4',
      'webhook_endpoints{state="active"} 3',
      'webhook_endpoints{state="failing"} 2',
      'webhook_endpoints{state="parked"} 1',
    ])
      t.match(text, `\nsvc_${line}\n`)
  }
})
