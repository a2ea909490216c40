/** Questions of PromQL scripts, over what a reader has in the namespaces of their loads. */
import type { Job } from 'svcdb'
import { storageSource } from '../../../plugins/promql/storage-source.ts'
import { ask, type Result } from '../../../plugins/promql/testing/run-script.ts'
import type { Question } from '../../../plugins/promql/testing/script.ts'

type Asked = Pick<Question, 'query' | 'startMs' | 'endMs' | 'stepMs'> & { namespace: string }

const job: Job<Asked[]> = async (reader, questions): Promise<Result[]> => {
  const results: Result[] = []
  for (const { namespace, ...question } of questions) {
    const source = storageSource(reader, namespace, new AbortController().signal, 1_000_000)
    results.push(await ask({ ...question, source, line: 0, expected: { inOrder: false, series: [], warnings: [], infos: [] } }))
  }
  return results
}

export default job
