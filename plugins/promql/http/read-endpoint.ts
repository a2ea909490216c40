/** /read: remote read. */

import { holdBody } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { decodeSnappy, snappyLength } from 'svcdb/lib/snappy'
import type { PromqlConfig } from '../config.ts'
import type { ReadJobArgs } from '../read-job.ts'
import { readRequest } from '../remote-read/request.ts'
import { READ_ANSWERS } from './parameters.ts'
import type { QueryApi } from './query-api.ts'

const JOB = moduleUrl('../read-job.ts', import.meta.url)
const SAMPLES_TYPE = 'application/x-protobuf'
const CHUNKS_TYPE = 'application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse'

export function readEndpoint(api: QueryApi, config: PromqlConfig): void {
  const { server } = api.svc
  api.serve(
    '/read',
    { summary: 'Remote read: snappy, protobuf', methods: ['POST'], encodedBody: true, answers: READ_ANSWERS },
    async (_params, request, reply) => {
      const body = (request.body as Uint8Array | undefined) ?? new Uint8Array(0)
      const limit = server.max_control_body_size
      holdBody(request, Math.min(snappyLength(body), limit))
      const args: ReadJobArgs = {
        namespace: api.svc.context(request).dataNamespace,
        request: readRequest(await decodeSnappy(body, limit, 'server.max_control_body_size'), server.max_body_members),
        sampleLimit: config.remote_read_sample_limit,
        maxBytesInFrame: config.remote_read_max_bytes_in_frame,
        maxBytes: server.prom_max_result_bytes,
        maxHeldBytes: server.max_held_memory,
      }
      await api.send<void>(request, reply, JOB, args, args.request.streamed ? { type: CHUNKS_TYPE } : { type: SAMPLES_TYPE, encoding: 'snappy' })
    },
  )
}
