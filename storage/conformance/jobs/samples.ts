/** Reads samples and answers with one line each, and with the series that are active. */
import type { Job } from 'svcdb'
import { SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleRequest } from 'svcdb/lib/columns'

const job: Job<SampleRequest, { lines: string[]; active: string[]; fields: string[] }> = async (reader, request) => {
  const fields = (await reader.schema(request.namespace)).map(({ name, fields }) => `${name}: ${fields.map((field) => field.name).sort()}`)
  const { tags, series, blocks } = await reader.samples(request)
  // A decimal has more digits than a float: engines may round the last one differently.
  const lines: string[] = []
  let next = 0
  for await (const { first, starts, times, values, kinds, histograms } of blocks()) {
    if (first < next) throw new Error(`a block begins with series ${first}, the one before ended with ${next}`)
    next = first + starts.length - 1
    for (let s = 0; s + 1 < starts.length; s++) {
      for (let i = starts[s]; i < starts[s + 1]; i++) {
        if (i > starts[s] && times[i] <= times[i - 1]) throw new Error('times of a series do not ascend')
        const kind = kinds?.[i]
        const value =
          kind === SAMPLE_HISTOGRAM ? Buffer.from(histograms?.[i] as Uint8Array).toString('hex') : kind === SAMPLE_STALE ? 'stale' : values[i].toPrecision(14)
        lines.push(`${tags.at(first + s).join()} ${times[i]} ${value}`)
      }
    }
  }
  // The columns must say the same as the tag sets.
  const { codes, texts } = tags.column('host')
  for (let i = 0; i < series.length; i++) {
    const pairs = tags.at(i)
    const at = pairs.findIndex((key, n) => n % 2 === 0 && key === 'host')
    if ((at < 0 ? undefined : pairs[at + 1]) !== (codes[i] < 0 ? undefined : texts[codes[i]]))
      throw new Error(`column "host" differs from the tags of series ${i}`)
  }
  const active = await reader.activeSeries(request)
  return { lines: lines.sort(), active: Array.from(active.series, (_, i) => active.tags.at(i).join()).sort(), fields }
}

export default job
