"""A server that speaks the shapes of NCBI's E-utilities, for the part of them that is used."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

ARTICLE = """
<PubmedArticle>
 <MedlineCitation Status="MEDLINE" Owner="NLM">
  <PMID Version="1">111</PMID>
  <Article PubModel="Print">
   <Journal>
    <JournalIssue CitedMedium="Internet"><PubDate><Year>2020</Year><Month>May</Month></PubDate>
    </JournalIssue>
    <Title>Journal of Teas</Title>
   </Journal>
   <ArticleTitle>Effects of <i>Camellia sinensis</i> on blood pressure.</ArticleTitle>
   <ELocationID EIdType="pii">x</ELocationID>
   <ELocationID EIdType="doi">10.1000/tea.1</ELocationID>
   <Abstract>
    <AbstractText Label="METHODS">Adults drank tea.</AbstractText>
    <AbstractText Label="RESULTS">Pressure fell by 3 &lt;mmHg&gt;.</AbstractText>
   </Abstract>
   <AuthorList>
    <Author><LastName>Leaf</LastName><ForeName>Ada</ForeName></Author>
    <Author><CollectiveName>The Tea Group</CollectiveName></Author>
   </AuthorList>
  </Article>
 </MedlineCitation>
 <PubmedData><ArticleIdList><ArticleId IdType="pubmed">111</ArticleId></ArticleIdList></PubmedData>
</PubmedArticle>"""

BARE = """
<PubmedArticle><MedlineCitation><PMID>25329299</PMID><Article><ArticleTitle>Known already.
</ArticleTitle></Article></MedlineCitation></PubmedArticle>"""

DOCTYPE = (
    '<?xml version="1.0" ?><!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed.dtd">'
)


@dataclass
class Eutils:
    """`asked` are the forms that were posted; `status` makes it fail."""

    ids: list[str] = field(default_factory=lambda: ["111", "25329299"])
    status: int = 200
    search_body: Any = None
    records: str | None = None
    asked: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/eutils/esearch.fcgi", self._search, methods=["POST"]),
                Route("/eutils/efetch.fcgi", self._fetch, methods=["POST"]),
            ]
        )

    async def _note(self, request: Request) -> None:
        assert not request.url.query
        self.asked.append(parse_qs((await request.body()).decode()))

    async def _search(self, request: Request) -> Response:
        await self._note(request)
        found = {"count": str(len(self.ids)), "retmax": "20", "idlist": self.ids}
        body = {"header": {"type": "esearch", "version": "0.3"}, "esearchresult": found}
        return JSONResponse(self.search_body or body, self.status)

    async def _fetch(self, request: Request) -> Response:
        await self._note(request)
        # In another order than they were asked for, as PubMed may send them.
        records = self.records
        if records is None:
            records = f"{DOCTYPE}<PubmedArticleSet>{BARE}{ARTICLE}</PubmedArticleSet>"
        return Response(records, media_type="text/xml")
