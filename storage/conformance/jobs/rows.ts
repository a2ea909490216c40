/** Emits one line a measurement and answers with the rows of the one it is asked for, read with pauses in between. */
import { setTimeout } from 'node:timers/promises'
import type { Job } from 'svcdb'

const job: Job<{ namespace: string; measurement: string; pauseMs: number }, { rows: number; fields: number }> = async (reader, args, io) => {
  for (const { name } of await reader.measurements(args.namespace)) await io.emit(Buffer.from(`${name}\n`))
  await setTimeout(args.pauseMs)
  let rows = 0
  let fields = 0
  for await (const chunk of reader.scan(args)) {
    rows += chunk.times.length
    fields = Math.max(fields, chunk.columns.length)
  }
  return { rows, fields }
}

export default job
