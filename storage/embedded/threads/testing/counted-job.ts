/** Counts rows; emits and returns that, and how many such jobs its thread has run before. It can emit more before, and fail or wait then. */
import type { Job } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export interface CountedArgs {
  namespace: string
  measurement: string
  name?: string
  /** Of rows before it, none counts. */
  start?: string
  /** Of output before the counts. */
  bytes?: number
  end?: 'fail' | 'wait'
}

export interface Counted {
  rows: number
  before: number
}

const PART = 65_536
let runs = 0

const job: Job<CountedArgs, Counted> = async (reader, { namespace, measurement, start, bytes = 0, end }, io) => {
  const counted: Counted = { rows: 0, before: runs++ }
  for await (const { times } of reader.scan({ namespace, measurement, ...(start === undefined ? {} : { start: BigInt(start) }) })) counted.rows += times.length
  for (let left = bytes; left > 0; left -= PART) await io.emit(new Uint8Array(Math.min(left, PART)).fill(counted.before))
  if (end === 'fail') throw new SvcError('BAD_REQUEST', `job ${counted.before} fails`)
  if (end === 'wait') await new Promise((_, reject) => io.signal.addEventListener('abort', () => reject(io.signal.reason)))
  await io.emit(Buffer.from(JSON.stringify(counted)))
  return counted
}

export default job
