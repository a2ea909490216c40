import { definePlugin, SvcError } from 'svcdb'
import { patiently } from 'svcdb/lib/source'
import { configSchema } from './config.ts'
import { numbersOf } from './numbers.ts'

export default definePlugin({
  id: 'poll',
  summary: 'Polls a URL and stores the numbers it answers',
  stability: 'beta',
  config: configSchema,
  capabilities: ['points'],
  setup(svc, config) {
    const polls = svc.metrics.counter('poll_answers_total', 'Answers whose numbers were stored')

    // A run that throws is counted and shown with its error by GET /api/v1/admin/schedules; the next one comes all the same.
    svc.schedule('poll', config.every_ms, async ({ signal }) => {
      const answer = await fetch(config.url, { signal: AbortSignal.any([signal, AbortSignal.timeout(config.timeout_ms)]) })
      if (!answer.ok) throw new Error(`cannot poll ${config.url}: it answered ${answer.status}`)
      const numbers = numbersOf(await textOf(answer, config.max_bytes))
      const time = svc.clock.nowNanos()
      // While the storage has no room, this poll waits, and the next one for it.
      await patiently(
        async () => {
          const points = svc.ingest.points(await svc.systemContext(config.namespace))
          await points.add(config.measurement, { url: config.url }, numbers, time).write()
        },
        { signal },
      )
      polls.inc()
    })
  },
})

/** @throws SvcError PAYLOAD_TOO_LARGE */
async function textOf(answer: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new SvcError('PAYLOAD_TOO_LARGE', `cannot read the answer: it has more than ${maxBytes} bytes; raise poll.max_bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
