"""LangChain as its documentation has it: loader, splitter, indexing API with a record manager, Chroma on disk.

langchain_peer.py FOLDER STATE LOG LETTERS    (letters of a chunk, at most)
"""

import sys
import time

from langchain_chroma import Chroma
from langchain_classic.indexes import SQLRecordManager
from langchain_community.document_loaders import DirectoryLoader, TextLoader
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index
from langchain_text_splitters import RecursiveCharacterTextSplitter
from static_model import StaticModel, tell

folder, state, log, letters = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


class Static(Embeddings):
    def __init__(self):
        self.model = StaticModel(log)

    def embed_documents(self, texts):
        return self.model(texts)

    def embed_query(self, text):
        return self.model([text])[0]


begun = time.perf_counter()
records = SQLRecordManager("chroma/files", db_url=f"sqlite:///{state}/records.db")
records.create_schema()
store = Chroma("files", embedding_function=Static(), persist_directory=f"{state}/chroma")
loader = DirectoryLoader(folder, glob="**/*.*", loader_cls=TextLoader, loader_kwargs={"encoding": "utf-8"})
splitter = RecursiveCharacterTextSplitter(chunk_size=letters, chunk_overlap=0)
# A generator, so that not everything is in memory; "full" also removes what is gone, as `redrive index` does.
chunks = (chunk for document in loader.lazy_load() for chunk in splitter.split_documents([document]))
index(chunks, records, store, cleanup="full", source_id_key="source", key_encoder="blake2b")
tell(store._collection, time.perf_counter() - begun, lambda about: about["source"])
