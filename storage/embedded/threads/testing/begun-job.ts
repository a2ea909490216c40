/** Counts rows, and how often it was begun under its name; the first times it waits, after its snapshot was taken, until it is stopped. */
import { setTimeout } from 'node:timers/promises'
import type { Job } from 'svcdb'

export interface BegunArgs {
  name: string
  measurement: string
  /** How often it waits. */
  waits: number
  /** It has output before. */
  speaks?: boolean
}

export interface Begun {
  rows: number
  times: number
}

const begun = new Map<string, number>()

const job: Job<BegunArgs, Begun> = async (reader, { name, measurement, waits, speaks }, { emit, signal }) => {
  const times = (begun.get(name) ?? 0) + 1
  begun.set(name, times)
  if (speaks === true) await emit(Buffer.from('['))
  if (times <= waits) await setTimeout(600_000, undefined, { signal })
  let rows = 0
  for await (const chunk of reader.scan({ namespace: '', measurement })) rows += chunk.times.length
  await emit(Buffer.from(JSON.stringify({ rows, times })))
  return { rows, times }
}

export default job
