/** Samples as evaluators read them, from the engine and from the oracle. */
import type { Storage } from 'svcdb'
import type { SampleRequest } from 'svcdb/lib/columns'
import { jobModule } from './context.ts'

interface Answer {
  lines: string[]
  active: string[]
  fields: string[]
}

/** @throws Error that tells the first difference. @returns the number of samples. */
export async function compareSamples(request: SampleRequest, oracle: Storage, engine: Storage): Promise<number> {
  const [expected, found] = [await read(oracle, request), await read(engine, request)]
  if (typeof expected === 'string' || typeof found === 'string') {
    if (expected !== found) throw new Error(`samples: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`)
    return 0
  }
  for (const what of ['fields', 'lines', 'active'] as const) {
    for (let i = 0; i < Math.max(expected[what].length, found[what].length); i++) {
      if (expected[what][i] !== found[what][i])
        throw new Error(`${what} of samples differ in line ${i} of ${expected[what].length}:\n  expected ${expected[what][i]}\n  found    ${found[what][i]}`)
    }
  }
  return expected.lines.length
}

async function read(storage: Storage, request: SampleRequest): Promise<Answer | string> {
  try {
    return await storage.run<Answer>(jobModule('samples'), request).result
  } catch (error) {
    const { code } = error as { code?: string }
    if (code !== 'NOT_FOUND') throw error
    return `refused with ${code}`
  }
}
