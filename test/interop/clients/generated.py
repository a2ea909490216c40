"""The modules that grpcio-tools generates from a proto file."""
import importlib
import os
import sys
import tempfile

import grpc_tools.protoc


def load(proto):
    """Returns the module of the messages and that of the services."""
    folder = tempfile.mkdtemp()
    if grpc_tools.protoc.main(['', f'-I{os.path.dirname(proto)}', f'--python_out={folder}', f'--grpc_python_out={folder}', proto]) != 0:
        sys.exit(f'protoc could not compile {proto}')
    sys.path.insert(0, folder)
    name = os.path.basename(proto).removesuffix('.proto')
    return importlib.import_module(f'{name}_pb2'), importlib.import_module(f'{name}_pb2_grpc')
