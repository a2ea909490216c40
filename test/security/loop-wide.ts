/** Requests to measurements that have almost as many fields as one may have: what is done for each of these with every new field grows with them. */
import { type AttackBody, http, NANOS, range, TEXT } from './loop-body.ts'

const FIELDS = 1000
/** Measurements of a write: it may begin 12,000 fields. */
const AT_ONCE = 10

/** @param size of what is sent, as in `attackBodies`. */
export function wideBodies(size: (most: number) => number): AttackBody[] {
  const measurements = size(400)
  return [
    {
      ...http('line protocol: a new field of each of many wide measurements', '/write', TEXT, () =>
        range(measurements, (i) => `lwm${i} g=1 ${NANOS + 1n}`).join('\n'),
      ),
      prepare: (url) => written(url, measurements),
    },
  ]
}

async function written(url: string, measurements: number): Promise<void> {
  const fields = range(FIELDS, (i) => `f${i}=1`).join(',')
  for (let from = 0; from < measurements; from += AT_ONCE) {
    const lines = range(Math.min(AT_ONCE, measurements - from), (i) => `lwm${from + i} ${fields} ${NANOS}`)
    const answer = await fetch(`${url}/write`, { method: 'POST', headers: TEXT, body: lines.join('\n') })
    if (!answer.ok) throw new Error(`cannot prepare: ${answer.status} ${await answer.text()}`)
  }
  // An engine thread is there, which is told of what is new.
  const answer = await fetch(`${url}/api/v1/query?query=lwm0_f0`)
  if (!answer.ok) throw new Error(`cannot prepare: ${answer.status} ${await answer.text()}`)
}
