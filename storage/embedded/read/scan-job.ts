/** A scan for the main thread: chunk by chunk, as structured clones. */
import { serialize } from 'node:v8'
import type { Job, ScanRequest } from 'svcdb'

const scan: Job<ScanRequest, void> = async (reader, request, io) => {
  for await (const chunk of reader.scan(request)) await io.emit(serialize(chunk))
}

export default scan
