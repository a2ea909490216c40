/** Questions of PromQL, with the aggregations that the reader computes, or without. */
import type { Job, Reader } from 'svcdb'
import { storageSource } from '../../../plugins/promql/storage-source.ts'
import { ask, type Result } from '../../../plugins/promql/testing/run-script.ts'
import type { Question } from '../../../plugins/promql/testing/script.ts'

export type Asked = Pick<Question, 'query' | 'startMs' | 'endMs' | 'stepMs'>

export interface Answered extends Result {
  /** Aggregations that the reader was asked for, and those that it declined. */
  asked: number
  declined: number
}

const job: Job<{ questions: readonly Asked[]; aggregates: boolean }, Answered[]> = async (reader, { questions, aggregates }) => {
  const answers: Answered[] = []
  for (const question of questions) {
    const counts = { asked: 0, declined: 0 }
    const aggregate: Reader['aggregate'] = async (request) => {
      const found = await reader.aggregate?.(request)
      counts.asked++
      if (found === undefined) counts.declined++
      return found
    }
    const own = new Proxy(reader, {
      get(target, name) {
        if (name === 'aggregate') return aggregates ? aggregate : undefined
        const value = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const source = storageSource(own, 'default', new AbortController().signal, 1_000_000)
    const result = await ask({ ...question, source, line: 0, expected: { inOrder: false, series: [], warnings: [], infos: [] } })
    answers.push({ ...result, ...counts })
  }
  return answers
}

export default job
