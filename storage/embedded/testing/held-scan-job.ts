/** For tests: opens a measurement, says so, and reads it when a file appears. The result is the number of rows. */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Job } from 'svcdb'

const job: Job<{ measurement: string; go: string }, number> = async (reader, { measurement, go }, { emit }) => {
  const chunks = reader.scan({ namespace: '', measurement })
  await emit(Uint8Array.of(1))
  while (!existsSync(go)) await sleep(5)
  let rows = 0
  for await (const { times } of chunks) rows += times.length
  return rows
}

export default job
