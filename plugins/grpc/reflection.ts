/** grpc.reflection.v1 and v1alpha, which differ in their name only (grpc/reflection/v1/reflection.proto). Without credentials, as the file is public. */
import type { CallContext } from 'svcdb'
import type { GrpcMethod } from 'svcdb/lib/grpc'
import { ProtobufReader, ProtobufWriter, readText } from 'svcdb/lib/protobuf'
import { Descriptors, type ProtoFile } from './descriptors.ts'

const VERSIONS = ['v1', 'v1alpha']
const FILES = ['./svc.proto', './health.proto', ...VERSIONS.map((version) => `./reflection-${version}.proto`)]
/** A name: what needs no credentials takes no more than it needs. */
const MAX_REQUEST_BYTES = 4096
const NOT_FOUND = 5
const UNIMPLEMENTED = 12

export class Reflection {
  private descriptors = new Descriptors()

  /** Call it before the listener starts. */
  async load(): Promise<void> {
    this.descriptors = await Descriptors.load(FILES)
  }

  get methods(): GrpcMethod<CallContext>[] {
    return VERSIONS.map(
      (version): GrpcMethod<CallContext> => ({
        path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
        action: 'public',
        maxRequestBytes: MAX_REQUEST_BYTES,
        kind: 'bidi_stream',
        handle: async (requests, _call, send) => {
          for await (const request of requests) await send(this.answer(request))
        },
      }),
    )
  }

  private answer(request: Uint8Array): Uint8Array {
    const { descriptors } = this
    const asked = questionOf(request)
    const writer = new ProtobufWriter()
    if (asked.host !== '') writer.string(1, asked.host)
    writer.blob(2, request)
    if (asked.member === 3) file(writer, descriptors.file(asked.text), `file "${asked.text}"`)
    else if (asked.member === 4) file(writer, descriptors.fileOf(asked.text), `symbol "${asked.text}"`)
    else if (asked.member === 7) {
      const list = writer.open(6)
      for (const service of descriptors.services) {
        const entry = writer.open(1)
        writer.string(1, service)
        writer.close(entry)
      }
      writer.close(list)
    } else if (asked.member === 5 || asked.member === 6) failure(writer, NOT_FOUND, 'there are no extensions')
    else failure(writer, UNIMPLEMENTED, 'the request asks for nothing that this server knows')
    return writer.take()
  }
}

function questionOf(request: Uint8Array): { host: string; member: number; text: string } {
  const reader = new ProtobufReader()
  const asked = { host: '', member: 0, text: '' }
  reader.begin(request)
  while (reader.next()) {
    const { field } = reader
    if (field === 1) asked.host = readText(reader, 'host')
    else if (field === 3 || field === 4 || field === 6 || field === 7) {
      asked.member = field
      asked.text = readText(reader, 'request')
    } else {
      if (field === 5) asked.member = field
      reader.skip()
    }
  }
  return asked
}

function file(writer: ProtobufWriter, found: ProtoFile | undefined, what: string): void {
  if (found === undefined) return failure(writer, NOT_FOUND, `there is no ${what}`)
  const answer = writer.open(4)
  writer.blob(1, found.descriptor)
  writer.close(answer)
}

function failure(writer: ProtobufWriter, code: number, message: string): void {
  const answer = writer.open(7)
  writer.int(1, code)
  writer.string(2, message)
  writer.close(answer)
}
