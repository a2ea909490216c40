/** For tests: takes its snapshot, says so, and reads a field's samples when a file appears. The result is their number. */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Job } from 'svcdb'

const job: Job<{ measurement: string; field: string; go: string }, number> = async (reader, { measurement, field, go }, { emit }) => {
  const { blocks } = await reader.samples({ namespace: '', measurement, field })
  await emit(Uint8Array.of(1))
  while (!existsSync(go)) await sleep(5)
  let samples = 0
  for await (const { times } of blocks()) samples += times.length
  return samples
}

export default job
