/** Messages of ten metrics by alias, and births of many, to columns: processor a message. `node plugins/sparkplug_b/sparkplug_b.bench.ts [messages]` */
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { Message } from 'svcdb/testkit'
import { ARRIVAL, type Host, host, NOW } from './testing.ts'

const messages = Number(process.argv[2] ?? 200_000)
const PER_BATCH = 5000

function birth(metrics: number): Buffer {
  const payload = new Message().int(1, NOW).int(3, 0)
  for (let i = 0; i < metrics; i++)
    payload.put(
      2,
      new Message()
        .put(1, `Line ${i % 7}/Metric ${i}`)
        .int(2, i)
        .int(3, NOW)
        .int(4, 3)
        .int(10, 1)
        .done(),
    )
  return payload.done()
}

function data(metrics: number): Buffer {
  const payload = new Message().int(1, NOW + 1).int(3, 1)
  for (let i = 0; i < metrics; i++)
    payload.put(
      2,
      new Message()
        .int(2, i)
        .int(3, NOW + 1)
        .int(10, i)
        .done(),
    )
  return payload.done()
}

function read({ sessions, decoder, resolver }: Host, topic: string, body: Buffer, count: number): number {
  const batch = new WriteBatch(resolver)
  const began = process.cpuUsage()
  for (let i = 0; i < count; i++) {
    const session = atOnce(sessions.arrived(topic, body, false))
    if (session !== 'ignored') atOnce(decoder.decode({ body, session, time: ARRIVAL, measurement: 'm', tags: [] }, batch))
    if (i % PER_BATCH === 0) batch.reset()
  }
  const { user, system } = process.cpuUsage(began)
  return (user + system) / count
}

for (const round of ['cold', 'warm']) {
  const made = host(1_000_000)
  read(made, 'spBv1.0/g/NBIRTH/n', birth(100), 1)
  console.log(`${round}: ${read(made, 'spBv1.0/g/NDATA/n', data(10), messages).toFixed(2)} µs of processor a message of 10 metrics by alias`)
  console.log(`${round}: ${(read(host(1_000_000), 'spBv1.0/g/NBIRTH/n', birth(1000), messages / 1000) / 1000).toFixed(2)} ms a birth of 1,000 metrics`)
}
