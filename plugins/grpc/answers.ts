/** The messages of svc.proto that answer, but for rows. */
import type { DeleteResult, FieldInfo, MeasurementInfo, Refused } from 'svcdb'
import { ProtobufWriter } from 'svcdb/lib/protobuf'

const writer = new ProtobufWriter()
const MAX_REFUSED = 16

export const EMPTY: Uint8Array = new Uint8Array(0)

export function writeResponse(written: number): Uint8Array {
  writer.int(1, written)
  return writer.take()
}

/** Of forwarded points. */
export function forwardedResponse({ written, rejected, rejections }: Refused): Uint8Array {
  writer.int(1, written)
  writer.int(2, rejected)
  for (const { position, code, message } of rejections.slice(0, MAX_REFUSED)) {
    const refused = writer.open(3)
    writer.int(1, position)
    writer.string(2, code)
    writer.string(3, message)
    writer.close(refused)
  }
  return writer.take()
}

export function duplicateResponse(): Uint8Array {
  writer.int(4, 1)
  return writer.take()
}

export function streamWriteResponse(total: number, last: number): Uint8Array {
  writer.int(1, total)
  writer.int(2, last)
  return writer.take()
}

export function deleteResponse({ series, segmentsSkipped }: DeleteResult): Uint8Array {
  writer.int(1, series)
  writer.int(2, segmentsSkipped)
  return writer.take()
}

export function serverInfoResponse(version: string, uptimeSecs: number, measurements: number): Uint8Array {
  writer.string(1, version)
  writer.int(2, uptimeSecs)
  writer.int(3, measurements)
  return writer.take()
}

/** SchemaResponse, which is a MeasurementInfo as well. */
export function schemaResponse(measurement: MeasurementInfo): Uint8Array {
  schema(measurement)
  return writer.take()
}

export function listMeasurementsResponse(measurements: readonly MeasurementInfo[]): Uint8Array {
  for (const measurement of measurements) {
    const mark = writer.open(1)
    schema(measurement)
    writer.close(mark)
  }
  return writer.take()
}

function schema({ name, tags, fields }: MeasurementInfo): void {
  writer.string(1, name)
  column('_time', 'timestamp', 'timestamp(ns)')
  for (const tag of tags) column(tag, 'tag', 'string')
  for (const field of fields) column(field.name, 'field', dataType(field))
}

function column(name: string, role: string, type: string): void {
  const mark = writer.open(2)
  writer.string(1, name)
  writer.string(2, role)
  writer.string(3, type)
  writer.close(mark)
}

function dataType({ type, scale }: FieldInfo): string {
  return type === 'decimal' ? `decimal(38, ${scale ?? 0})` : type
}
