"""LlamaIndex as its documentation has it: reader, ingestion pipeline with a document store, Chroma on disk.

llama_peer.py FOLDER STATE LOG TOKENS    (tokens of a chunk, at most)
"""

import os
import sys
import time

import chromadb
from llama_index.core import SimpleDirectoryReader
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.vector_stores.chroma import ChromaVectorStore
from static_model import StaticModel, tell

folder, state, log, tokens = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PORTION = 100
model = StaticModel(log)


class Static(BaseEmbedding):
    # The model is no field, as fields are copied.
    def _get_text_embeddings(self, texts):
        return model(texts)

    def _get_text_embedding(self, text):
        return model([text])[0]

    def _get_query_embedding(self, query):
        return model([query])[0]

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


begun = time.perf_counter()
collection = chromadb.PersistentClient(f"{state}/chroma").get_or_create_collection("files")
count = lambda text: model.tokenizer.encode(text, add_special_tokens=False).ids  # noqa: E731
pipeline = IngestionPipeline(
    transformations=[
        SentenceSplitter(chunk_size=tokens, chunk_overlap=0, tokenizer=count),
        Static(embed_batch_size=1_000),
    ],
    docstore=SimpleDocumentStore(),
    vector_store=ChromaVectorStore(chroma_collection=collection),
    # The cache is for changed transformations, and writing it down takes long.
    disable_cache=True,
)
if os.path.exists(f"{state}/pipeline"):
    pipeline.load(f"{state}/pipeline")
documents = SimpleDirectoryReader(folder, recursive=True, filename_as_id=True).load_data()
# In portions, as Chroma takes no more than 5,461 chunks at once and the pipeline hands over all of a run; kept after each.
for at in range(0, len(documents), PORTION):
    pipeline.run(documents=documents[at : at + PORTION])
    pipeline.persist(f"{state}/pipeline")
tell(collection, time.perf_counter() - begun, lambda about: about["file_path"])
