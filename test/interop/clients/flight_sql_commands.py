"""Flight SQL commands as pyarrow, which knows Flight only, has to send them: protobuf by hand."""
import pyarrow.flight as flight


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def member(number, value):
    """A member of a protobuf message: text or bytes, a message already encoded, or a number."""
    if isinstance(value, (bool, int)):
        return varint(number << 3) + varint(int(value))
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def command(name, *members):
    """google.protobuf.Any of a message of Flight SQL."""
    return member(1, f'type.googleapis.com/arrow.flight.protocol.sql.{name}') + member(2, b''.join(members))


def describe(name, *members):
    return flight.FlightDescriptor.for_command(command(name, *members))


def read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def update_count(result):
    """record_count of a DoPutUpdateResult; the default 0 is not on the wire."""
    data = result.to_pybytes()
    if not data:
        return 0
    assert data[0] == 1 << 3, data
    return read_varint(data, 1)[0]


class Session:
    """A connection with the calls that Flight SQL makes of those of Flight."""

    def __init__(self, address, options=None, tls=None):
        """`tls` is the certificate to trust."""
        self.client = flight.connect(f'grpc://{address}') if tls is None else flight.connect(f'grpc+tls://{address}', tls_root_certs=tls)
        self.options = options

    def put(self, table, batches, name='CommandStatementUpdate', members=None, metadata=None, options=None, schema=None):
        """Writes record batches; returns the number of rows that the server says it has written. `metadata` belongs to the first batch."""
        descriptor = describe(name, *(members or [member(1, table)]))
        writer, reader = self.client.do_put(descriptor, schema or batches[0].schema, options or self.options)
        try:
            for index, batch in enumerate(batches):
                if metadata is not None and index == 0:
                    writer.write_with_metadata(batch, metadata)
                else:
                    writer.write_batch(batch)
            writer.done_writing()
            result = reader.read()
            return update_count(result)
        finally:
            # Where the server has answered with an error, this is what raises it.
            writer.close()

    def info(self, name, *members, options=None):
        return self.client.get_flight_info(describe(name, *members), options or self.options)

    def fetch(self, info, options=None):
        """The rows of the one endpoint; their schema has to be the one that the FlightInfo told."""
        assert len(info.endpoints) == 1, info.endpoints
        table = self.client.do_get(info.endpoints[0].ticket, options or self.options).read_all()
        if info.schema is not None and info.schema != table.schema:
            raise AssertionError(f'{info.schema} was promised, {table.schema} came')
        return table

    def get(self, name, *members, options=None):
        return self.fetch(self.info(name, *members, options=options), options)

    def sql(self, query, options=None):
        return self.get('CommandStatementQuery', member(1, query), options=options)
